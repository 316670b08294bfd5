#pragma once
// Python's two ways of formatting: 'text' % values and 'text'.format(...).

#include "text/jinja_runtime.h"

namespace millrace {

// %s %r %a %d %i %u %x %X %o %e %E %f %F %g %G %c %%, with flags, width, precision and (key).
Value percent_format(Runtime& runtime, const Value& format, const Value& values);

// {} {0} {name} with .attribute and [item], !r !s, and format specifications of strings and
// numbers.
Value brace_format(Runtime& runtime, const MarkedText& format, const Arguments& arguments);

// format(value, specification)
MarkedText format_value(Runtime& runtime, const Value& value, std::string_view specification);

}  // namespace millrace
