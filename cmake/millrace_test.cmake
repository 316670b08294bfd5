# millrace_parse_once(<name> OPTIONS option... LIBRARIES target... HEADERS header...)
#
# Makes <name>, whose headers are parsed once for all targets that say REUSE_FROM <name>. Those are compiled
# with the same options.
function(millrace_parse_once name)
  cmake_parse_arguments(ARG "" "" "OPTIONS;LIBRARIES;HEADERS" ${ARGN})
  set(unit ${PROJECT_BINARY_DIR}/${name}.cpp)
  file(CONFIGURE OUTPUT ${unit} CONTENT "")
  add_library(${name} OBJECT ${unit})
  target_link_libraries(${name} PRIVATE millrace_options ${ARG_LIBRARIES})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

# millrace_test_executable(<target> source... [LIBRARIES target...])
#
# Makes a program of tests. Half of what compiling one takes is headers that nearly all of them include.
# What tests themselves compute is little, so they are optimised little.
function(millrace_test_executable target)
  cmake_parse_arguments(ARG "" "" "LIBRARIES" ${ARGN})
  set(options -O1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # At -O1 gcc 12 sees copies beyond the end of std::string where there are none.
    list(APPEND options -Wno-array-bounds -Wno-stringop-overflow)
  endif()
  if(MILLRACE_SANITIZE MATCHES undefined)
    list(APPEND options -fno-sanitize=undefined)  # what is under test has it
  endif()
  if(NOT TARGET millrace_test_headers)
    millrace_parse_once(
      millrace_test_headers
      OPTIONS ${options}
      LIBRARIES GTest::gmock fmt::fmt
      HEADERS <gmock/gmock.h> <gtest/gtest.h> <fmt/format.h> <tl/expected.hpp> <algorithm> <chrono> <deque>
              <filesystem> <fstream> <functional> <map> <memory> <optional> <random> <set> <span> <string>
              <string_view> <thread> <unordered_map> <utility> <variant> <vector>)
  endif()
  add_executable(${target} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${target} PRIVATE ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE MILLRACE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_compile_options(${target} PRIVATE ${options})
  target_precompile_headers(${target} REUSE_FROM millrace_test_headers)
endfunction()
