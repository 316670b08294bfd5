#pragma once
// Methods of strings, lists, dicts and of the template's own objects.

#include "text/jinja_runtime.h"

namespace millrace {

// Names that tell sequences apart, so they are compared by content.
inline constexpr char kRangeTypeName[] = "range";
inline constexpr char kGroupTypeName[] = "_GroupTuple";  // of the filter groupby

bool has_method(const Value& object, std::string_view name);

// Calls a method that does not change its object. Fails for unknown names.
Value call_method(Runtime& runtime, const Value& self, std::string_view name, Arguments& arguments);

// Methods that change a list or dict: append, insert, pop, extend, update, clear. The object is a
// variable of the template; what came with the request is refused.
bool is_mutating_method(const Value& object, std::string_view name);
Value call_mutating_method(Runtime& runtime,
                           Value& self,
                           std::string_view name,
                           Arguments& arguments);

// Shared with filters of the same name.
MarkedText replace_text(Runtime& runtime,
                        const MarkedText& text,
                        std::string_view from,
                        const MarkedText& to,
                        int64_t max_count);
std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends);
MarkedText pad_text(Runtime& runtime,
                    const MarkedText& text,
                    int64_t width,
                    char align,  // '<', '>' or '^' (as str.center)
                    std::string_view fill);

}  // namespace millrace
