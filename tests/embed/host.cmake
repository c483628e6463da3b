# Builds a host project and runs its programs on a driver. By tests/embed/CMakeLists.txt:
#   SOURCE BINARY   the project, and where it is built (afresh)
#   settings        what every host project gets (generator, compilers, launcher)
#   OPTIONS         more options of its configuration
#   SCRIPT          a command that builds in place of CMake
#   PROGRAMS        what to run, paths inside BINARY
#   RUNNER          command that runs a program on a driver; exit status 77 is a skip
cmake_minimum_required(VERSION 3.22)
include(${TEST})
file(REMOVE_RECURSE ${BINARY})
file(MAKE_DIRECTORY ${BINARY})

# step(what command...): runs it in BINARY, prints what it says, ends the test where it fails.
function(step what)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${BINARY} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0 AND NOT (what STREQUAL "run" AND status EQUAL 77))
    list(JOIN ARGN " " command)
    message("${output}") # FATAL_ERROR would wrap the lines
    message(FATAL_ERROR "${what} failed (${status}): ${command}")
  endif()
  if(what STREQUAL "run")
    message("${output}")
    if(status EQUAL 77)
      message("skipped") # ctest looks for this line
    endif()
  endif()
endfunction()

if(SCRIPT) # not a CMake project: a script with arguments
  step(build ${SCRIPT})
else()
  step(configure ${CMAKE_COMMAND} -S ${SOURCE} -B ${BINARY} ${settings} ${OPTIONS})
  step(build ${CMAKE_COMMAND} --build ${BINARY} --parallel 2)
endif()
foreach(program IN LISTS PROGRAMS)
  step(run ${RUNNER} ${BINARY}/${program})
endforeach()
