# Writes commit.h, at every build: a row must not carry the commit of an earlier one. Empty outside
# a git checkout.
execute_process(COMMAND git describe --always --dirty --exclude=* --abbrev=7 WORKING_DIRECTORY ${SOURCE}
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  set(commit "")
endif()
# Touches nothing where it is the same.
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define VKATTN_BENCH_COMMIT \"${commit}\"\n" @ONLY)
