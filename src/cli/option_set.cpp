#include "cli/option_set.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "cli/foreign_names.h"

namespace millrace {
namespace {

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// CLI11's own usage line does not name the command's arguments as we want them.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string usage) : usage_(std::move(usage)) {}
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: millrace " + usage_ + "\n";
  }

 private:
  const std::string usage_;
};

// Whole decimal numbers only: CLI11 would clamp what is too large and read 010 as octal.
template <class T>
bool read_number(const std::string& text, T& value) {
  if constexpr (std::is_integral_v<T>) {
    const std::string_view digits = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
    if (digits.size() > 1 && digits.front() == '0') {
      return false;
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  } else {
    return CLI::detail::lexical_cast(text, value);
  }
}

// What --help shows of a range; a bound that the type has anyway is none.
template <class T>
std::string range_text(T low, T high) {
  const bool has_low = low != std::numeric_limits<T>::lowest();
  const bool has_high = high != std::numeric_limits<T>::max();
  return fmt::format("{}{}{}",
                     has_low ? fmt::format("{}", low) : "",
                     has_low || has_high ? ".." : "",
                     has_high ? fmt::format("{}", high) : "");
}

// As CLI::Range, but NaN is in no range.
template <class T>
CLI::Validator in_range(T low, T high) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        T value{};
        const bool is_inside = read_number(text, value) && value >= low && value <= high;
        const bool has_high = high != std::numeric_limits<T>::max();
        return is_inside  ? std::string()
               : has_high ? fmt::format("expected {} to {}, got {}", low, high, text)
                          : fmt::format("expected {} or more, got {}", low, text);
      },
      range_text(low, high));
}

}  // namespace

std::string nearest_name(const std::string& name, std::span<const std::string> candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const bool is_beginning = name.size() > 3 && candidate.starts_with(name);
    const size_t distance = is_beginning ? 1 : edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

struct OptionSet::Parser {
  CLI::App app;
  std::string usage;
  std::set<const CLI::Option*> numbers;  // options whose value is one
  std::set<const CLI::Option*> lists;    // that may be repeated

  template <class T>
  void add(const char* names, T& value, const char* help) {
    std::string spelled(names);
    CLI::Option* option = nullptr;
    if (spelled[0] == '-') {
      option = app.add_option(spelled, value, help)->capture_default_str();
    } else {
      option = app.add_option(spelled, value, help)->required();
    }
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }

  template <class T, class Bound>
  void add_in_range(const char* names, T& value, Bound low, Bound high, const char* help) {
    numbers.insert(app.add_option(names, value, help)
                       ->capture_default_str()
                       ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
                       ->check(in_range(low, high)));
  }

  // Whether CLI11 may take an argument apart: "-n5", "-qs7", "-pText", but not "-tb" or "-st".
  bool is_bundle(std::string_view argument) const {
    if (argument.size() < 2 || argument.starts_with("--")) {
      return false;
    }
    const CLI::Option* first = app.get_option_no_throw(std::string(argument.substr(0, 2)));
    const std::string rest(argument.substr(2));
    if (first == nullptr || rest.empty()) {
      return first != nullptr;
    }
    if (first->get_items_expected_max() == 0) {  // a flag: more of them behind it
      return is_bundle("-" + rest);
    }
    double ignored = 0;
    return !numbers.contains(first) || CLI::detail::lexical_cast(rest, ignored);
  }

  // Unknown options, found before parsing: -ngl would be read as -n with the value gl. All of them,
  // for the command line of another program has several.
  std::vector<std::string> unknown_options(std::span<const std::string> arguments) const {
    std::vector<std::string> unknown;
    for (size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
      const std::string name = arguments[i].substr(0, arguments[i].find('='));
      const bool is_name = name.size() > 1 && name[0] == '-' && name[1] != '.' &&
                           std::isdigit(static_cast<unsigned char>(name[1])) == 0;
      const CLI::Option* option = is_name ? app.get_option_no_throw(name) : nullptr;
      const bool is_foreign = find_foreign_name(ForeignKind::kOption, name) != nullptr;
      if (option != nullptr) {
        const bool has_value_behind = option->get_items_expected_max() > 0 && name == arguments[i];
        i += has_value_behind ? 1 : 0;
      } else if (is_name && (is_foreign || !is_bundle(name))) {
        unknown.push_back(name);
      }
    }
    return unknown;
  }

  // ", here: ...", or the nearest of ours, or nothing.
  std::string hint_for(const std::string& name) const {
    const ForeignName* row =
        command() == "serve" ? find_foreign_name(ForeignKind::kServeOption, name) : nullptr;
    row = row != nullptr ? row : find_foreign_name(ForeignKind::kOption, name);
    const std::vector<std::string> ours = option_names();
    if (row == nullptr) {
      const std::string near = nearest_name(name, ours);
      return near.empty() ? "" : ", did you mean " + near + "?";
    }
    // A name that the row shares with this command, as load's --model, is nearer.
    for (const std::string& our : ours) {
      if (find_foreign_name(ForeignKind::kOption, our) == row) {
        return ", did you mean " + our + "?";
      }
    }
    constexpr std::string_view kNothing = "nothing (";
    if (row->here.starts_with(kNothing)) {
      return fmt::format(", not needed here ({}", row->here.substr(kNothing.size()));
    }
    const std::string_view option =
        row->here.substr(std::min(row->here.find("--"), row->here.size()));
    const bool is_ours = std::ranges::count(ours, option.substr(0, option.find(' '))) > 0;
    const bool is_of_another = row->here.starts_with('-') && !option.empty() && !is_ours;
    return fmt::format(
        ", here: {}{}", row->here, is_of_another ? ", which " + command() + " does not have" : "");
  }

  std::optional<std::string> complaint(std::span<const std::string> arguments) const {
    const std::vector<std::string> unknown = unknown_options(arguments);
    if (unknown.empty()) {
      return std::nullopt;
    }
    std::string text = unknown.size() == 1 ? "unknown option " : "unknown options: ";
    for (const std::string& name : unknown) {
      text += fmt::format("{}{}{}", &name == &unknown.front() ? "" : "; ", name, hint_for(name));
    }
    return text;
  }

  // An option whose value would be the name of another one: --speculate --draft FILE.
  const CLI::Option* option_without_value(std::span<const std::string> arguments) const {
    for (size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
      const CLI::Option* option =
          arguments[i].starts_with('-') ? app.get_option_no_throw(arguments[i]) : nullptr;
      if (option == nullptr || option->get_items_expected_max() == 0) {
        continue;
      }
      ++i;
      if (i == arguments.size() ||
          (arguments[i].starts_with("--") && app.get_option_no_throw(arguments[i]) != nullptr)) {
        return option;
      }
    }
    return nullptr;
  }

  // The repeatable option with several words behind it, this one among them: --alias a b.
  const CLI::Option* list_before(std::span<const std::string> arguments,
                                 const std::string& word) const {
    auto at = std::ranges::find(arguments, word);
    while (at != arguments.begin() && !std::prev(at)->starts_with('-')) {
      --at;
    }
    if (at == arguments.begin()) {
      return nullptr;
    }
    const std::string& name = *std::prev(at);
    const CLI::Option* option = app.get_option_no_throw(name.substr(0, name.find('=')));
    return lists.contains(option) ? option : nullptr;
  }

  // What to say of the first argument that no option took.
  std::string unknown_argument(std::span<const std::string> arguments) const {
    const std::string unknown = app.remaining().front();
    std::string hint;
    if (const CLI::Option* list = list_before(arguments, unknown)) {
      hint = fmt::format(": {0} takes one value at a time, as {0} ONE {0} OTHER", list->get_name());
    } else if (app.get_option_no_throw("--prompt") != nullptr) {
      hint = ": a prompt goes behind -p, in quotation marks";
    } else if (app.get_option_no_throw("--trace") != nullptr) {
      hint = fmt::format(", did you mean --trace {}?", unknown);
    }
    return fmt::format("unknown argument {}{}", unknown, hint);
  }

  std::string command() const { return usage.substr(0, usage.find(' ')); }

  std::string help_hint() const {
    return fmt::format("(millrace {} --help lists the options)", command());
  }

  std::vector<std::string> option_names() const {
    std::vector<std::string> names{"--help"};
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) {
        names.push_back("--" + name);
      }
    }
    return names;
  }
};

OptionSet::OptionSet(std::string usage, std::string description)
    : parser_(std::make_unique<Parser>()) {
  parser_->app.description(std::move(description));
  parser_->app.formatter(std::make_shared<HelpFormatter>(usage));
  parser_->usage = std::move(usage);
  parser_->app.set_help_flag("-h,--help", "Show this help");
  parser_->app.get_formatter()->column_width(34);
}

OptionSet::~OptionSet() = default;

void OptionSet::add(const char* names, std::string& value, const char* help) {
  parser_->add(names, value, help);
}
void OptionSet::add(const char* names, std::vector<std::string>& values, const char* help) {
  parser_->lists.insert(parser_->app.add_option(names, values, help)->allow_extra_args(false));
}
void OptionSet::add(const char* names, bool& value, const char* help) {
  parser_->app.add_flag(names, value, help);
}
void OptionSet::add(const char* names, int& value, int low, int high, const char* help) {
  parser_->add_in_range(names, value, low, high, help);
}
void OptionSet::add(
    const char* names, int64_t& value, int64_t low, int64_t high, const char* help) {
  parser_->add_in_range(names, value, low, high, help);
}
void OptionSet::add(const char* names, float& value, double low, double high, const char* help) {
  parser_->add_in_range(names, value, low, high, help);
}
void OptionSet::add(const char* names, double& value, double low, double high, const char* help) {
  parser_->add_in_range(names, value, low, high, help);
}
void OptionSet::add(
    const char* names, std::optional<int64_t>& value, int64_t low, int64_t high, const char* help) {
  parser_->numbers.insert(parser_->app.add_option(names, value, help)
                              ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
                              ->check(in_range(low, high)));
}
void OptionSet::add(
    const char* names, std::optional<double>& value, double low, double high, const char* help) {
  parser_->numbers.insert(parser_->app.add_option(names, value, help)
                              ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
                              ->check(in_range(low, high)));
}
void OptionSet::add(const char* names, std::optional<std::string>& value, const char* help) {
  parser_->app.add_option(names, value, help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

Result<int> OptionSet::run(std::span<const std::string> arguments,
                           const std::function<Result<int>()>& command) {
  const auto outcome = parse(arguments);
  if (!outcome) {
    return propagate(outcome);
  }
  return *outcome == Outcome::kHelpShown ? 0 : command();
}

Result<OptionSet::Outcome> OptionSet::parse(std::span<const std::string> arguments) {
  const bool wants_help = std::ranges::any_of(arguments, [](const std::string& argument) {
    return argument == "--help" || argument == "-h";
  });
  if (const auto complaint = parser_->complaint(arguments); complaint && !wants_help) {
    return fail(ErrorCode::kInvalidArgument, "{} {}", *complaint, parser_->help_hint());
  }
  if (const auto* bare = parser_->option_without_value(arguments)) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: expected a value behind it: {} {}",
                bare->get_name(),
                bare->get_description(),
                parser_->help_hint());
  }
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    parser_->app.parse(reversed);
    return Outcome::kRun;
  } catch (const CLI::CallForHelp&) {
    std::fputs(parser_->app.help().c_str(), stdout);
    return Outcome::kHelpShown;
  } catch (const CLI::Error& error) {
    const bool is_unknown = !parser_->app.remaining().empty();
    return fail(ErrorCode::kInvalidArgument,
                "{} {}",
                is_unknown ? parser_->unknown_argument(arguments) : error.what(),
                parser_->help_hint());
  }
}

}  // namespace millrace
