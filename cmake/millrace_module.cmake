# millrace_module(NAME <name> [DEPENDS module...] [LIBRARIES target...] [TEST_LIBRARIES target...])
#
# Makes the library millrace_<name> from src/<name>/**/*.cpp and sorts the rest by file name:
#   *_slow_test.cpp -> millrace_<name>_slow_test (ctest label "slow")
#   *_test.cpp      -> millrace_<name>_test      (ctest label "unit")
#   *_bench.cpp     -> millrace_<name>_bench     (google-benchmark, not a test)
# Adding a file to a module edits no list.
function(millrace_module)
  cmake_parse_arguments(ARG "" "NAME" "DEPENDS;LIBRARIES;TEST_LIBRARIES" ${ARGN})
  set(folder ${PROJECT_SOURCE_DIR}/src/${ARG_NAME})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  set(slow_tests ${sources})
  list(FILTER slow_tests INCLUDE REGEX "_slow_test\\.cpp$")
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER tests EXCLUDE REGEX "_slow_test\\.cpp$")
  set(benches ${sources})
  list(FILTER benches INCLUDE REGEX "_bench\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "(_test|_bench)\\.cpp$")

  set(library millrace_${ARG_NAME})
  list(TRANSFORM ARG_DEPENDS PREPEND millrace_)
  if(sources)
    add_library(${library} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(${library} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${library} ${scope} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${library} ${scope} millrace_options ${ARG_DEPENDS} ${ARG_LIBRARIES})
  # Not in the other presets: there a unit that lacks an include is to fail.
  if(sources AND MILLRACE_SANITIZE)
    if(NOT TARGET millrace_library_headers)
      millrace_parse_once(
        millrace_library_headers
        LIBRARIES fmt::fmt
        HEADERS <fmt/format.h> <tl/expected.hpp> <algorithm> <array> <atomic> <charconv> <chrono>
                <filesystem> <functional> <map> <memory> <optional> <span> <string> <string_view> <thread>
                <utility> <variant> <vector>)
    endif()
    target_precompile_headers(${library} REUSE_FROM millrace_library_headers)
  endif()

  if(NOT MILLRACE_DEV)
    return()
  endif()
  foreach(kind test slow_test)
    set(label unit)
    set(files ${tests})
    if(kind STREQUAL slow_test)
      set(label slow)
      set(files ${slow_tests})
    endif()
    if(files)
      millrace_test_executable(${library}_${kind} ${files} LIBRARIES ${library} ${ARG_TEST_LIBRARIES})
      add_test(NAME ${ARG_NAME}_${kind} COMMAND ${library}_${kind})
      set_tests_properties(${ARG_NAME}_${kind} PROPERTIES LABELS ${label} TIMEOUT 1200)
    endif()
  endforeach()
  if(benches AND benchmark_FOUND AND NOT MILLRACE_SANITIZE)
    add_executable(${library}_bench ${benches})
    target_link_libraries(
      ${library}_bench PRIVATE ${library} ${ARG_TEST_LIBRARIES} benchmark::benchmark_main)
    target_compile_definitions(
      ${library}_bench PRIVATE MILLRACE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  endif()
endfunction()
