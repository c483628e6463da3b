# Test "neon": builds the test of the CPU's kernels for AArch64 and runs it under qemu, a part of
# the cases: emulated, the oracle is slow.
#   cmake -DSOURCE=... -DFOLDER=... -DHOST_INCLUDES=... -DPROGRAMS=... -DGENERATOR=... -DLAUNCHER=...
#     -P run.cmake
find_program(COMPILER aarch64-linux-gnu-g++)
find_program(EMULATOR NAMES qemu-aarch64 qemu-aarch64-static)
find_path(GOOGLETEST src/gtest-all.cc PATHS /usr/src/googletest/googletest NO_DEFAULT_PATH)
foreach(needed COMPILER EMULATOR GOOGLETEST)
  if(NOT ${needed})
    message("skipped: needs a cross compiler aarch64-linux-gnu-g++, qemu-aarch64 and GoogleTest's sources "
      "(Debian: g++-aarch64-linux-gnu qemu-user googletest); there is no ${needed}")
    return()
  endif()
endforeach()

string(REPLACE "," ";" HOST_INCLUDES "${HOST_INCLUDES}")
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${FOLDER} -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux
  -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DGOOGLETEST=${GOOGLETEST}
  "-DHOST_INCLUDES=${HOST_INCLUDES}" -DPROGRAMS=${PROGRAMS} RESULT_VARIABLE failed OUTPUT_VARIABLE log ERROR_VARIABLE log)
if(failed)
  message(FATAL_ERROR "could not be configured: ${log}")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} --build ${FOLDER} RESULT_VARIABLE failed OUTPUT_VARIABLE log ERROR_VARIABLE log)
if(failed)
  message(FATAL_ERROR "could not be built: ${log}")
endif()
set(ENV{VKATTN_TEST_ONE_CASE_IN} 8)
set(ENV{VKATTN_TEST_CASES} 40)
execute_process(COMMAND ${EMULATOR} ${FOLDER}/neon RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "failed under emulation: ${failed}")
endif()
