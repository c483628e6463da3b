# The public headers as hosts compile them: vkattn.hpp and runtime.hpp from C++17 on, the C headers
# as C99 and C++11, with the warnings of careful hosts as errors. SOURCE, COMPILERS (GNU's options),
# INCLUDES (Vulkan's headers).
cmake_minimum_required(VERSION 3.22)
# -isystem of the system's own folder would hide the C library from C++'s
list(TRANSFORM INCLUDES PREPEND -idirafter)
set(strict -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wdouble-promotion -Werror)
set(checked 0)

# check(compiler LANGUAGE level file options...)
function(check compiler language level file)
  execute_process(COMMAND ${compiler} -x ${language} -std=${level} -fsyntax-only -I${SOURCE}/include ${INCLUDES} ${strict} ${ARGN} ${SOURCE}/${file}
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message("${output}")
    message(FATAL_ERROR "${file} does not compile as ${level} with ${compiler}")
  endif()
  math(EXPR checked "${checked} + 1")
  set(checked ${checked} PARENT_SCOPE)
endfunction()

foreach(compiler IN LISTS COMPILERS)
  foreach(level c++17 c++20 c++2b)
    check(${compiler} c++ ${level} tests/headers/calls.cpp -Wold-style-cast)
  endforeach()
  # The library itself compiles the header as C++20.
  check(${compiler} c++ c++17 tests/headers/runtime.cpp -Wold-style-cast)
  check(${compiler} c++ c++17 tests/headers/list.cpp -Wold-style-cast)
  foreach(level c++17 c++20) # what readers of the README copy
    check(${compiler} c++ ${level} samples/embed/main.cpp -Wold-style-cast)
  endforeach()
  check(${compiler} c++ c++11 tests/headers/c_headers.h -Wold-style-cast)
  check(${compiler} c c99 tests/headers/c_headers.h)
  # An older language level gets the reason, and not a list of what it lacks.
  execute_process(COMMAND ${compiler} -x c++ -std=c++14 -fsyntax-only -I${SOURCE}/include ${INCLUDES} ${SOURCE}/tests/headers/calls.cpp
    RESULT_VARIABLE status ERROR_VARIABLE output OUTPUT_QUIET)
  if(status EQUAL 0 OR NOT output MATCHES "needs C[+][+]17")
    message(FATAL_ERROR "C++14 is answered with (${status}): ${output}")
  endif()
endforeach()
if(checked LESS 8) # of one compiler
  message(FATAL_ERROR "only ${checked} compilations: no compiler was given")
endif()
message(STATUS "${checked} compilations without a warning")
