#include "text/jinja_globals.h"

#include <array>
#include <ctime>

#include "text/jinja_access.h"
#include "text/jinja_methods.h"

namespace millrace {
namespace {

constexpr uint64_t kMaxRange = 100'000;  // as Jinja's sandbox has it

Value range(Runtime& runtime, Arguments& arguments) {
  arguments.check("range", {"start", "stop", "step"}, 1);
  if (!arguments.named.empty()) template_fail("range() takes no named arguments");
  const size_t n = arguments.positional.size();
  const auto integer = [&](size_t i) { return to_integer(arguments.positional[i], "range"); };
  const int64_t start = n == 1 ? 0 : integer(0);
  const int64_t stop = n == 1 ? integer(0) : integer(1);
  const int64_t step = n == 3 ? integer(2) : 1;
  if (step == 0) template_fail("range() step must not be zero");
  // Distances between int64 fit uint64.
  const auto distance = [](int64_t from, int64_t to) {
    return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  };
  uint64_t count = 0;
  if (step > 0 && start < stop) {
    count = (distance(start, stop) - 1) / static_cast<uint64_t>(step) + 1;
  } else if (step < 0 && start > stop) {
    count = (distance(stop, start) - 1) / distance(step, 0) + 1;
  }
  if (count > kMaxRange) template_fail("range() with more than {} items", kMaxRange);
  runtime.charge_bytes(count * sizeof(Value));
  std::vector<Value> items;
  items.reserve(count);
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) items.emplace_back(start + i * step);
  return Value::view(std::move(items), kRangeTypeName);
}

Dict make_dict(Runtime& runtime, const Arguments& arguments, std::string_view name) {
  if (arguments.positional.size() > 1) template_fail("{}() takes at most one mapping", name);
  Dict dict;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_dict()) {
      runtime.charge_bytes(source.as_dict().size() * sizeof(Value) * 4);
      for (const auto& [key, value] : source.as_dict()) dict.set(key, value);
    } else {
      for (const Value& pair : iterate(runtime, source)) {
        const std::vector<Value> parts = iterate(runtime, pair);
        if (parts.size() != 2 || !is_hashable(parts[0])) {
          template_fail("{}() needs pairs of a key and a value", name);
        }
        dict.set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [key, value] : arguments.named) dict.set(Value(key), value);
  return dict;
}

Value dict(Runtime& runtime, Arguments& arguments) {
  return make_dict(runtime, arguments, "dict");
}

Value make_namespace(Runtime& runtime, Arguments& arguments) {
  return runtime.make_namespace(make_dict(runtime, arguments, "namespace"));
}

Value joiner(Runtime&, Arguments& arguments) {
  arguments.check("joiner", {"sep"});
  const Value* separator = arguments.get(0, "sep");
  return Value(std::make_shared<JoinerObject>(separator != nullptr ? *separator : Value(", ")));
}

Value cycler(Runtime&, Arguments& arguments) {
  if (arguments.positional.empty()) template_fail("cycler() needs at least one item");
  if (!arguments.named.empty()) template_fail("cycler() takes no named arguments");
  return Value(std::make_shared<CyclerObject>(std::move(arguments.positional)));
}

Value raise_exception(Runtime&, Arguments& arguments) {
  arguments.check("raise_exception", {"message"}, 1);
  const Value& message = *arguments.get(0, "message");
  throw TemplateError{ErrorCode::kInvalidArgument, to_text(message).text(), true};
}

std::tm to_tm(const CivilTime& time) {
  std::tm tm = {};
  tm.tm_year = time.year - 1900;
  tm.tm_mon = time.month - 1;
  tm.tm_mday = time.day;
  tm.tm_hour = time.hour;
  tm.tm_min = time.minute;
  tm.tm_sec = time.second;
  tm.tm_isdst = -1;
  // Weekday and day of the year from the calendar alone (Sakamoto's method), not from a time zone.
  static constexpr std::array<int, 12> kMonthOffset = {0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4};
  static constexpr std::array<int, 12> kDaysBefore = {
      0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  const auto month = static_cast<size_t>(tm.tm_mon);
  const int year = time.month < 3 ? time.year - 1 : time.year;
  tm.tm_wday = (year + year / 4 - year / 100 + year / 400 + kMonthOffset[month] + time.day) % 7;
  const bool is_leap = time.year % 4 == 0 && (time.year % 100 != 0 || time.year % 400 == 0);
  tm.tm_yday = kDaysBefore[month] + time.day - 1 + (is_leap && time.month > 2 ? 1 : 0);
  return tm;
}

Value strftime_now(Runtime& runtime, Arguments& arguments) {
  arguments.check("strftime_now", {"format"}, 1);
  const std::string& format =
      to_string_argument(*arguments.get(0, "format"), "strftime_now").text();
  if (format.size() > 1024 || format.find('\0') != std::string::npos) {
    template_fail("strftime_now: the format is not valid");
  }
  const std::tm tm = to_tm(runtime.now());
  // A mark at the end tells an empty result from one that does not fit.
  const std::string pattern = format + "x";
  std::string text(64 * pattern.size() + 64, '\0');
  text.resize(std::strftime(text.data(), text.size(), pattern.c_str(), &tm));
  if (!text.empty()) text.pop_back();
  return runtime.text(MarkedText(std::move(text)));
}

}  // namespace

Dict make_globals() {
  Dict globals;
  const auto add = [&](const char* name, GlobalFunction function) {
    globals.set(
        Value(name),
        Value(std::shared_ptr<TemplateObject>(std::make_shared<FunctionObject>(name, function))));
  };
  add("range", range);
  add("dict", dict);
  add("namespace", make_namespace);
  add("joiner", joiner);
  add("cycler", cycler);
  add("raise_exception", raise_exception);
  add("strftime_now", strftime_now);
  return globals;
}

}  // namespace millrace
