#include "text/jinja_parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "text/jinja_error.h"
#include "text/jinja_expression_parser.h"
#include "text/jinja_scope.h"

namespace millrace {
namespace {

constexpr std::array<std::string_view, 11> kRefusedTags = {"include",
                                                           "import",
                                                           "from",
                                                           "extends",
                                                           "block",
                                                           "with",
                                                           "do",
                                                           "autoescape",
                                                           "trans",
                                                           "pluralize",
                                                           "debug"};

class TemplateParser {
 public:
  explicit TemplateParser(std::string_view source) : parser_(lex_template(source)) {}

  ParsedTemplate run() {
    ParsedTemplate parsed;
    parsed.body = parse_body({});
    return parsed;
  }

 private:
  using TupleEnd = ExpressionParser::TupleEnd;
  using Ends = std::initializer_list<std::string_view>;

  // Statements up to "{%" of one of these tags, whose name is then the current token; without ends
  // up to the end of the template.
  Body parse_body(Ends ends) {
    const ExpressionParser::Nesting nesting(parser_);
    Body body;
    while (parser_.current().kind != TokenKind::kEnd) {
      const int line = parser_.current().line;
      if (parser_.current().kind == TokenKind::kData) {
        body.push_back(std::make_unique<DataStatement>(parser_.take().text, line));
      } else if (parser_.current().kind == TokenKind::kVariableBegin) {
        parser_.take();
        auto output = std::make_unique<OutputStatement>(line);
        output->value = parser_.parse_tuple(true, TupleEnd::kTag);
        parser_.expect(TokenKind::kVariableEnd, "'}}'");
        body.push_back(std::move(output));
      } else {
        parser_.take();  // "{%"
        if (std::any_of(ends.begin(), ends.end(), [&](auto e) { return parser_.is_name(e); })) {
          return body;
        }
        parse_statement(body);
        parser_.expect(TokenKind::kBlockEnd, "'%}'");
      }
    }
    if (ends.size() > 0) parser_.error(fmt::format("'{}'", *(ends.end() - 1)));
    return body;
  }

  // Ends the opening tag, then the body.
  Body parse_tag_body(Ends ends) {
    parser_.take_operator(":");
    parser_.expect(TokenKind::kBlockEnd, "'%}'");
    return parse_body(ends);
  }

  void parse_statement(Body& body) {
    const int line = parser_.current().line;
    const std::string tag = parser_.expect_name("the name of a tag");
    if (tag == "for") return body.push_back(parse_for(line));
    if (tag == "if") return body.push_back(parse_if(line));
    if (tag == "set") return body.push_back(parse_set(line));
    if (tag == "macro") return body.push_back(parse_macro(line));
    if (tag == "call") return body.push_back(parse_call(line));
    if (tag == "filter") return body.push_back(parse_filter(line));
    if (tag == "generation") return body.push_back(parse_generation(line));
    if (tag == "print") return parse_print(body, line);
    if (tag == "break" || tag == "continue") {
      if (!in_loop_) parser_.error_at(line, fmt::format("'{}' outside of a loop", tag));
      const auto kind = tag == "break" ? StatementKind::kBreak : StatementKind::kContinue;
      return body.push_back(std::make_unique<Statement>(kind, line));
    }
    if (std::find(kRefusedTags.begin(), kRefusedTags.end(), tag) != kRefusedTags.end()) {
      throw TemplateError{
          ErrorCode::kUnsupported,
          fmt::format("line {}: the tag '{}' is not supported in chat templates", line, tag),
          false};
    }
    parser_.error_at(line, fmt::format("unknown tag '{}'", tag));
  }

  void check_not_loop(const Target& target) const {
    if (n_loops_ > 0 && target.kind == Target::Kind::kName && target.name == "loop") {
      parser_.error_at(target.line, "'loop' cannot be assigned to inside a for loop");
    }
    for (const Target& item : target.items) check_not_loop(item);
  }

  StatementPtr parse_for(int line) {
    auto node = std::make_unique<ForStatement>(line);
    ++n_loops_;
    node->target = parser_.parse_target(TupleEnd::kIn, false);
    check_not_loop(node->target);
    if (!parser_.take_name("in")) parser_.error("'in'");
    node->iterable = parser_.parse_tuple(false, TupleEnd::kRecursive);
    if (parser_.take_name("if")) node->filter = parser_.parse_expression();
    node->is_recursive = parser_.take_name("recursive");
    const bool outer_in_loop = std::exchange(in_loop_, true);
    node->body = parse_tag_body({"else", "endfor"});
    // The else part of a recursive loop is inside its function, so no outer loop is in reach.
    in_loop_ = outer_in_loop && !node->is_recursive;
    if (parser_.take().text == "else") {
      node->otherwise = parse_tag_body({"endfor"});
      parser_.take();
    }
    in_loop_ = outer_in_loop;
    --n_loops_;
    return node;
  }

  StatementPtr parse_if(int line) {
    auto node = std::make_unique<IfStatement>(line);
    bool has_test = true;
    while (true) {
      IfStatement::Branch branch;
      if (has_test) branch.test = parser_.parse_tuple(false, TupleEnd::kTag);
      branch.body =
          has_test ? parse_tag_body({"elif", "else", "endif"}) : parse_tag_body({"endif"});
      node->branches.push_back(std::move(branch));
      const std::string tag = parser_.take().text;
      if (tag == "endif") return node;
      has_test = tag == "elif";
    }
  }

  StatementPtr parse_set(int line) {
    Target target = parser_.parse_target(TupleEnd::kTag, true);
    check_not_loop(target);
    if (parser_.take_operator("=")) {
      auto node = std::make_unique<SetStatement>(line);
      node->target = std::move(target);
      node->value = parser_.parse_tuple(true, TupleEnd::kTag);
      return node;
    }
    auto node = std::make_unique<CaptureStatement>(StatementKind::kSetBlock, line);
    node->target = std::move(target);
    node->filter = parser_.parse_block_filter(false);
    node->body = parse_tag_body({"endset"});
    parser_.take();
    return node;
  }

  void parse_parameters(Function& function) {
    if (!parser_.take_operator("(")) return;
    while (!parser_.is_operator(")")) {
      function.parameters.push_back(parser_.expect_name("the name of a parameter"));
      const auto& names = function.parameters;
      if (std::count(names.begin(), names.end(), names.back()) > 1) {
        parser_.error_at(parser_.current().line,
                         fmt::format("parameter '{}' is repeated", names.back()));
      }
      if (parser_.take_operator("=")) {
        function.defaults.push_back(parser_.parse_expression());
      } else if (!function.defaults.empty()) {
        parser_.error("a default, since an earlier parameter has one");
      }
      if (!parser_.take_operator(",")) break;
    }
    parser_.expect_operator(")");
  }

  Body parse_function_body(Ends ends) {
    const bool outer_in_loop = std::exchange(in_loop_, false);
    Body body = parse_tag_body(ends);
    in_loop_ = outer_in_loop;
    parser_.take();
    return body;
  }

  StatementPtr parse_macro(int line) {
    auto node = std::make_unique<MacroStatement>(line);
    node->function.name = parser_.expect_name("the name of a macro");
    if (!parser_.is_operator("(")) parser_.error("'('");
    parse_parameters(node->function);
    node->function.body = parse_function_body({"endmacro"});
    return node;
  }

  StatementPtr parse_call(int line) {
    auto node = std::make_unique<CallBlockStatement>(line);
    parse_parameters(node->function);
    node->call = parser_.parse_expression();
    if (node->call->kind != ExpressionKind::kCall) parser_.error_at(line, "expected a call");
    node->function.body = parse_function_body({"endcall"});
    return node;
  }

  // {% generation %} marks the assistant's text for training; it renders as a scope of its own.
  StatementPtr parse_generation(int line) {
    auto node = std::make_unique<CallBlockStatement>(line);
    node->function.body = parse_function_body({"endgeneration"});
    return node;
  }

  StatementPtr parse_filter(int line) {
    auto node = std::make_unique<CaptureStatement>(StatementKind::kFilterBlock, line);
    node->filter = parser_.parse_block_filter(true);
    node->body = parse_tag_body({"endfilter"});
    parser_.take();
    return node;
  }

  void parse_print(Body& body, int line) {
    while (parser_.current().kind != TokenKind::kBlockEnd) {
      auto output = std::make_unique<OutputStatement>(line);
      output->value = parser_.parse_expression();
      body.push_back(std::move(output));
      if (!parser_.take_operator(",")) break;
    }
  }

  ExpressionParser parser_;
  bool in_loop_ = false;
  int n_loops_ = 0;
};

}  // namespace

ParsedTemplate parse_template(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    template_fail(
        "the template has {} bytes, at most {} are allowed", source.size(), kMaxTemplateBytes);
  }
  ParsedTemplate parsed = TemplateParser(source).run();
  resolve_names(parsed);
  return parsed;
}

}  // namespace millrace
