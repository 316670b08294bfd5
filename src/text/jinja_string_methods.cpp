#include "text/jinja_string_methods.h"

#include <algorithm>
#include <array>

#include "text/jinja_access.h"
#include "text/jinja_format.h"
#include "text/jinja_methods.h"
#include "text/jinja_unicode.h"

namespace millrace {
namespace {

constexpr int64_t kNoLimit = -1;

int64_t integer_or(const Value* value, int64_t otherwise, std::string_view what) {
  return value == nullptr ? otherwise : to_integer(*value, what);
}

template <CaseMapping mapping>
Value change_case(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("str method", {});
  return runtime.text(map_case(self, mapping));
}

template <StripSide side>
Value strip(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("strip", {"chars"});
  const Value* chars = arguments.get(0, "chars");
  std::pair<size_t, size_t> range;
  if (chars == nullptr || chars->is_none()) {
    range = strip_range(self.view(), side, nullptr);
  } else {
    const std::string_view set = to_string_argument(*chars, "strip").view();
    runtime.charge_bytes(set.size() * 8);
    range = strip_range(self.view(), side, &set);
  }
  return runtime.text(self.slice(range.first, range.second));
}

bool is_space_at(std::string_view text, size_t at, size_t* n) {
  return is_space(code_point_at(text, at, n));
}

// Words between whitespace, at most max_splits cuts, from the left. The rest stays as it is.
std::vector<MarkedText> split_words(const MarkedText& self, int64_t max_splits) {
  const std::string_view text = self.view();
  std::vector<MarkedText> parts;
  size_t at = strip_range(text, StripSide::kLeft, nullptr).first;
  while (at < text.size()) {
    if (max_splits != kNoLimit && static_cast<int64_t>(parts.size()) >= max_splits) {
      parts.push_back(self.slice(at, text.size()));
      break;
    }
    size_t end = at;
    size_t n = 0;
    while (end < text.size() && !is_space_at(text, end, &n)) end += n;
    parts.push_back(self.slice(at, end));
    at = end;
    while (at < text.size() && is_space_at(text, at, &n)) at += n;
  }
  return parts;
}

std::vector<MarkedText> split_words_right(const MarkedText& self, int64_t max_splits) {
  const std::string_view text = self.view();
  std::vector<MarkedText> parts;
  size_t end = strip_range(text, StripSide::kRight, nullptr).second;
  size_t n = 0;
  while (end > 0) {
    if (max_splits != kNoLimit && static_cast<int64_t>(parts.size()) >= max_splits) {
      parts.push_back(self.slice(0, end));
      break;
    }
    size_t begin = end;
    while (begin > 0 && !is_space_at(text, previous_code_point(text, begin), &n)) {
      begin = previous_code_point(text, begin);
    }
    parts.push_back(self.slice(begin, end));
    end = begin;
    while (end > 0 && is_space_at(text, previous_code_point(text, end), &n)) {
      end = previous_code_point(text, end);
    }
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<MarkedText> split_at(const MarkedText& self,
                                 std::string_view separator,
                                 int64_t max_splits,
                                 bool from_right) {
  const std::string_view text = self.view();
  std::vector<MarkedText> parts;
  size_t begin = 0;
  size_t end = text.size();
  while (max_splits == kNoLimit || static_cast<int64_t>(parts.size()) < max_splits) {
    if (from_right) {
      const size_t found = end < separator.size() ? std::string_view::npos
                                                  : text.rfind(separator, end - separator.size());
      if (found == text.npos) break;
      parts.push_back(self.slice(found + separator.size(), end));
      end = found;
    } else {
      const size_t found = text.find(separator, begin);
      if (found == text.npos) break;
      parts.push_back(self.slice(begin, found));
      begin = found + separator.size();
    }
  }
  parts.push_back(self.slice(begin, end));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

Value to_list(Runtime& runtime, std::vector<MarkedText> parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (MarkedText& part : parts) items.push_back(runtime.text(std::move(part)));
  return runtime.list(std::move(items));
}

template <bool from_right>
Value split(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("split", {"sep", "maxsplit"});
  const Value* separator = arguments.get(0, "sep");
  int64_t max_splits = integer_or(arguments.get(1, "maxsplit"), kNoLimit, "split");
  if (max_splits < 0) max_splits = kNoLimit;
  runtime.charge_bytes(self.size());
  if (separator == nullptr || separator->is_none()) {
    return to_list(
        runtime, from_right ? split_words_right(self, max_splits) : split_words(self, max_splits));
  }
  const std::string_view text = to_string_argument(*separator, "split").view();
  if (text.empty()) template_fail("split: empty separator");
  return to_list(runtime, split_at(self, text, max_splits, from_right));
}

Value splitlines(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("splitlines", {"keepends"});
  const Value* keep = arguments.get(0, "keepends");
  runtime.charge_bytes(self.size());
  return to_list(runtime, split_lines(self, keep != nullptr && is_truthy(*keep)));
}

template <bool from_right>
Value partition(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("partition", {"sep"}, 1);
  const MarkedText& separator = to_string_argument(*arguments.get(0, "sep"), "partition");
  if (separator.empty()) template_fail("partition: empty separator");
  runtime.charge_bytes(self.size());
  const size_t at =
      from_right ? self.text().rfind(separator.text()) : self.text().find(separator.text());
  if (at == std::string::npos) {
    if (from_right) return Value::tuple({Value(""), Value(""), Value(self)});
    return Value::tuple({Value(self), Value(""), Value("")});
  }
  const size_t after = at + separator.size();
  return Value::tuple({Value(self.slice(0, at)),
                       Value(self.slice(at, after)),
                       Value(self.slice(after, self.size()))});
}

// Bytes of the code points [start, end) that the arguments 1 and 2 give, as slices do.
std::pair<size_t, size_t> argument_range(const MarkedText& self, const Arguments& arguments) {
  if (arguments.positional.size() < 2) return {0, self.size()};
  const auto length = static_cast<int64_t>(count_code_points(self.view()));
  const auto bound = [&](const Value* value, int64_t otherwise) {
    if (value == nullptr || value->is_none()) return otherwise;
    const int64_t at = to_integer(*value, "string method");
    return at < 0 ? std::max<int64_t>(0, at + length) : at;
  };
  const int64_t start = bound(arguments.get(1, ""), 0);
  const int64_t end = std::min(bound(arguments.get(2, ""), length), length);
  if (start > length || start > end) return {1, 0};  // matches nothing, not even ''
  return {byte_offset(self.view(), static_cast<size_t>(start)),
          byte_offset(self.view(), static_cast<size_t>(end))};
}

template <bool at_end>
Value has_affix(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("startswith", {"prefix", "start", "end"}, 1);
  const auto [begin, end] = argument_range(self, arguments);
  if (begin > end) return false;
  const std::string_view text = self.view().substr(begin, end - begin);
  const auto matches = [&text = text](const Value& affix) {
    const std::string_view wanted = to_string_argument(affix, "startswith").view();
    return at_end ? text.ends_with(wanted) : text.starts_with(wanted);
  };
  const Value& affix = *arguments.get(0, "prefix");
  if (!affix.is_tuple()) return matches(affix);
  for (const Value& one : affix.items()) {
    runtime.step();
    if (matches(one)) return true;
  }
  return false;
}

enum class Search { kFind, kRightFind, kIndex, kRightIndex };

template <Search search>
Value find(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("find", {"sub", "start", "end"}, 1);
  const std::string_view wanted = to_string_argument(*arguments.get(0, "sub"), "find").view();
  const auto [begin, end] = argument_range(self, arguments);
  runtime.charge_bytes(self.size());
  size_t at = std::string_view::npos;
  if (begin <= end) {
    const std::string_view text = self.view().substr(begin, end - begin);
    constexpr bool from_right = search == Search::kRightFind || search == Search::kRightIndex;
    at = from_right ? text.rfind(wanted) : text.find(wanted);
  }
  if (at == std::string_view::npos) {
    if (search == Search::kIndex || search == Search::kRightIndex) {
      template_fail("index: substring not found");
    }
    return -1;
  }
  return static_cast<int64_t>(count_code_points(self.view().substr(0, begin + at)));
}

Value count(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("count", {"sub", "start", "end"}, 1);
  const std::string_view wanted = to_string_argument(*arguments.get(0, "sub"), "count").view();
  const auto [begin, end] = argument_range(self, arguments);
  if (begin > end) return 0;
  const std::string_view text = self.view().substr(begin, end - begin);
  runtime.charge_bytes(text.size());
  if (wanted.empty()) return static_cast<int64_t>(count_code_points(text)) + 1;
  int64_t n = 0;
  for (size_t at = text.find(wanted); at != text.npos; at = text.find(wanted, at + wanted.size())) {
    ++n;
  }
  return n;
}

Value replace(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("replace", {"old", "new", "count"}, 2);
  return Value(replace_text(runtime,
                            self,
                            to_string_argument(*arguments.get(0, "old"), "replace").view(),
                            to_string_argument(*arguments.get(1, "new"), "replace"),
                            integer_or(arguments.get(2, "count"), kNoLimit, "replace")));
}

Value join(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("join", {"iterable"}, 1);
  MarkedText out;
  bool is_first = true;
  for (const Value& item : iterate(runtime, *arguments.get(0, "iterable"))) {
    const MarkedText& text = to_string_argument(item, "join");
    runtime.charge_bytes(text.size() + self.size());
    if (!is_first) out.append(self);
    is_first = false;
    out.append(text);
  }
  return Value(std::move(out));
}

template <bool at_end>
Value remove_affix(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("removeprefix", {"prefix"}, 1);
  const std::string_view affix =
      to_string_argument(*arguments.get(0, "prefix"), "removeprefix").view();
  const bool matches = at_end ? self.view().ends_with(affix) : self.view().starts_with(affix);
  if (!matches) return runtime.text(self);
  return runtime.text(at_end ? self.slice(0, self.size() - affix.size())
                             : self.slice(affix.size(), self.size()));
}

template <char align>
Value pad(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("ljust", {"width", "fillchar"}, 1);
  const Value* fill = arguments.get(1, "fillchar");
  const std::string_view character =
      fill == nullptr ? std::string_view(" ") : to_string_argument(*fill, "ljust").view();
  if (count_code_points(character) != 1) {
    template_fail("the fill character must be exactly one character long");
  }
  const int64_t width = to_integer(*arguments.get(0, "width"), "ljust");
  return Value(pad_text(runtime, self, width, align, character));
}

Value zfill(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("zfill", {"width"}, 1);
  const int64_t width = to_integer(*arguments.get(0, "width"), "zfill");
  const bool has_sign = !self.empty() && (self.text()[0] == '-' || self.text()[0] == '+');
  MarkedText out = self.slice(0, has_sign ? 1 : 0);
  out.append(pad_text(
      runtime, self.slice(has_sign ? 1 : 0, self.size()), width - (has_sign ? 1 : 0), '>', "0"));
  return Value(std::move(out));
}

// Every character satisfies the predicate, and there is one.
template <bool (*predicate)(char32_t)>
Value all_characters(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("str method", {});
  runtime.charge_bytes(self.size());
  for (size_t at = 0, n = 0; at < self.size(); at += n) {
    if (!predicate(code_point_at(self.view(), at, &n))) return false;
  }
  return !self.empty();
}

Value isprintable(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  return self.empty() ? Value(true) : all_characters<is_printable>(runtime, self, arguments);
}

Value isascii(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("isascii", {});
  runtime.charge_bytes(self.size());
  return std::all_of(
      self.text().begin(), self.text().end(), [](char c) { return (c & 0x80) == 0; });
}

// At least one cased character, and none of the other case.
template <bool upper>
Value has_case(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("islower", {});
  runtime.charge_bytes(self.size());
  bool is_cased = false;
  for (size_t at = 0, n = 0; at < self.size(); at += n) {
    const char32_t c = code_point_at(self.view(), at, &n);
    if (is_title(c) || (upper ? is_lower(c) : is_upper(c))) return false;
    is_cased = is_cased || (upper ? is_upper(c) : is_lower(c));
  }
  return is_cased;
}

Value istitle(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  arguments.check("istitle", {});
  runtime.charge_bytes(self.size());
  bool is_cased = false;
  bool after_cased = false;
  for (size_t at = 0, n = 0; at < self.size(); at += n) {
    const char32_t c = code_point_at(self.view(), at, &n);
    const bool starts = is_upper(c) || is_title(c);
    if (starts && after_cased) return false;
    if (is_lower(c) && !after_cased) return false;
    after_cased = starts || is_lower(c);
    is_cased = is_cased || after_cased;
  }
  return is_cased;
}

Value format(Runtime& runtime, const MarkedText& self, const Arguments& arguments) {
  return brace_format(runtime, self, arguments);
}

struct NamedMethod {
  std::string_view name;
  StringMethod method;
};

constexpr NamedMethod kMethods[] = {
    {"capitalize", change_case<CaseMapping::kCapitalize>},
    {"casefold", change_case<CaseMapping::kFold>},
    {"center", pad<'^'>},
    {"count", count},
    {"endswith", has_affix<true>},
    {"find", find<Search::kFind>},
    {"format", format},
    {"index", find<Search::kIndex>},
    {"isalnum", all_characters<is_alnum>},
    {"isalpha", all_characters<is_alpha>},
    {"isascii", isascii},
    {"isdecimal", all_characters<is_decimal>},
    {"isdigit", all_characters<is_digit>},
    {"islower", has_case<false>},
    {"isnumeric", all_characters<is_numeric>},
    {"isprintable", isprintable},
    {"isspace", all_characters<is_space>},
    {"istitle", istitle},
    {"isupper", has_case<true>},
    {"join", join},
    {"ljust", pad<'<'>},
    {"lower", change_case<CaseMapping::kLower>},
    {"lstrip", strip<StripSide::kLeft>},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace},
    {"rfind", find<Search::kRightFind>},
    {"rindex", find<Search::kRightIndex>},
    {"rjust", pad<'>'>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", strip<StripSide::kRight>},
    {"split", split<false>},
    {"splitlines", splitlines},
    {"startswith", has_affix<false>},
    {"strip", strip<StripSide::kBoth>},
    {"swapcase", change_case<CaseMapping::kSwap>},
    {"title", change_case<CaseMapping::kTitle>},
    {"upper", change_case<CaseMapping::kUpper>},
    {"zfill", zfill},
};

}  // namespace

StringMethod find_string_method(std::string_view name) {
  const auto found = std::lower_bound(
      std::begin(kMethods), std::end(kMethods), name, [](const NamedMethod& m, std::string_view n) {
        return m.name < n;
      });
  return found != std::end(kMethods) && found->name == name ? found->method : nullptr;
}

}  // namespace millrace
