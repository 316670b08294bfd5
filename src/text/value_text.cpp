// How Python prints values: str() and repr().
#include <fmt/core.h>

#include <charconv>
#include <cmath>

#include "text/jinja_object.h"
#include "text/jinja_unicode.h"
#include "text/value.h"

namespace millrace {
namespace {

void append_repr(MarkedText& out, const Value& value);

void append_escaped(std::string& out, char32_t c, std::string_view bytes, char quote) {
  switch (c) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\\':
      out += "\\\\";
      return;
    default:
      break;
  }
  if (c == static_cast<unsigned char>(quote)) {
    out += '\\';
    out += quote;
  } else if (is_printable(c)) {
    out += bytes;
  } else if (c < 0x100) {
    out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
  } else if (c < 0x10000) {
    out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  } else {
    out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
  }
}

void append_string_repr(MarkedText& out, const MarkedText& text) {
  const bool has_single = text.text().find('\'') != std::string::npos;
  const bool has_double = text.text().find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  const std::string_view quote_text(&quote, 1);
  out.append(quote_text, false);
  for (const TextPiece& piece : text.pieces()) {
    std::string escaped;
    for (size_t at = 0, n = 0; at < piece.text.size(); at += n) {
      const char32_t c = code_point_at(piece.text, at, &n);
      append_escaped(escaped, c, std::string_view(piece.text).substr(at, n), quote);
    }
    out.append(escaped, piece.is_input);
  }
  out.append(quote_text, false);
}

void append_items(MarkedText& out,
                  std::span<const Value> items,
                  const char* open,
                  const char* close) {
  out.append(open, false);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ", false);
    append_repr(out, items[i]);
  }
  out.append(close, false);
}

void append_view_repr(MarkedText& out, const Sequence& view) {
  const std::string_view name = view.type_name;
  if (name == "range") {
    // Only ranges with step 1 print so; other steps print the third argument.
    const int64_t begin = view.items.empty() ? 0 : view.items.front().as_int();
    const int64_t step =
        view.items.size() < 2 ? 1 : view.items[1].as_int() - view.items[0].as_int();
    const int64_t end = view.items.empty() ? 0 : view.items.back().as_int() + step;
    out.append(step == 1 ? fmt::format("range({}, {})", begin, end)
                         : fmt::format("range({}, {}, {})", begin, end, step),
               false);
    return;
  }
  out.append(name, false);
  append_items(out, view.items, "([", "])");
}

void append_dict_repr(MarkedText& out, const Dict& dict) {
  out.append("{", false);
  bool is_first = true;
  for (const auto& [key, value] : dict) {
    if (!is_first) out.append(", ", false);
    is_first = false;
    append_repr(out, key);
    out.append(": ", false);
    append_repr(out, value);
  }
  out.append("}", false);
}

void append_repr(MarkedText& out, const Value& value) {
  switch (value.kind()) {
    case ValueKind::kString:
      if (value.is_markup()) out.append("Markup(", false);
      append_string_repr(out, value.as_text());
      if (value.is_markup()) out.append(")", false);
      return;
    case ValueKind::kList:
      append_items(out, value.items(), "[", "]");
      return;
    case ValueKind::kTuple:
      append_items(out, value.items(), "(", value.items().size() == 1 ? ",)" : ")");
      return;
    case ValueKind::kView:
      append_view_repr(out, value.as_sequence());
      return;
    case ValueKind::kDict:
      append_dict_repr(out, value.as_dict());
      return;
    case ValueKind::kUndefined:
      out.append("Undefined", false);
      return;
    default:
      out.append(to_text(value));
  }
}

}  // namespace

std::string format_double(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto scientific =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string text(buffer, scientific.ptr);
  const size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return text;  // "1e-05", "1.5e+20": as Python writes them
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  std::string plain(buffer, fixed.ptr);
  if (plain.find('.') == std::string::npos) plain += ".0";
  return plain;
}

MarkedText to_text(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
      return MarkedText();
    case ValueKind::kNone:
      return MarkedText("None");
    case ValueKind::kBool:
      return MarkedText(value.as_bool() ? "True" : "False");
    case ValueKind::kInt:
      return MarkedText(std::to_string(value.as_int()));
    case ValueKind::kDouble:
      return MarkedText(format_double(value.as_double()));
    case ValueKind::kString:
      return value.as_text();
    case ValueKind::kObject: {
      if (const auto* space = object_if<NamespaceObject>(value, ObjectKind::kNamespace)) {
        // A namespace may contain itself, so its content is not shown.
        return MarkedText(fmt::format("<Namespace of {}>", space->attributes.size()));
      }
      return MarkedText(fmt::format("<{}>", value.as_object().type_name()));
    }
    default:
      return to_repr(value);
  }
}

MarkedText to_repr(const Value& value) {
  MarkedText out;
  append_repr(out, value);
  // A container of a request comes out as input as a whole: its numbers and brackets are input too.
  return value.is_frozen() ? MarkedText(out.text(), true) : out;
}

}  // namespace millrace
