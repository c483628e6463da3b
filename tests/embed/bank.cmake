# Ready SPIR-V in place of glslc is taken only where it was made from the same shaders. SOURCE,
# SPIRV (an exported bank), BINARY.
cmake_minimum_required(VERSION 3.22)
include(${TEST})
include(${SOURCE}/cmake/VkattnShaderHash.cmake)
file(REMOVE_RECURSE ${BINARY})
file(MAKE_DIRECTORY ${BINARY})
set(options -DVKATTN_BUILD_CPU=OFF -DVKATTN_BUILD_RUNTIME=OFF -DVKATTN_BUILD_TESTS=OFF -DVKATTN_BUILD_TOOL=OFF -DVKATTN_BUILD_SAMPLES=OFF
  -DVKATTN_BUILD_BENCH=OFF -DVulkan_GLSLC_EXECUTABLE=Vulkan_GLSLC_EXECUTABLE-NOTFOUND)

# expect(source pattern options...): configuring ends with an error that says so.
function(expect source pattern)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${source} -B ${BINARY}/build ${settings} ${options} ${ARGN}
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  if(status EQUAL 0 OR NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "configuring with ${ARGN} must fail and say '${pattern}'. It ended with ${status} and said:\n${output}")
  endif()
endfunction()

# A copy of the tree whose shaders may be changed.
file(MAKE_DIRECTORY ${BINARY}/tree)
foreach(part CMakeLists.txt cmake src shaders include LICENSE)
  file(COPY ${SOURCE}/${part} DESTINATION ${BINARY}/tree)
endforeach()
expect(${BINARY}/tree "has no bank.txt" -DVKATTN_SPIRV_FOLDER=${BINARY})
file(COPY ${SPIRV}/ DESTINATION ${BINARY}/spirv)
file(REMOVE ${BINARY}/spirv/softmax_nan.inc)
expect(${BINARY}/tree "has no softmax_nan.inc" -DVKATTN_SPIRV_FOLDER=${BINARY}/spirv)
file(COPY ${SPIRV}/ DESTINATION ${BINARY}/spirv)

# taken(what): the bank is, with the modules that it lists and no others.
function(taken what)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${BINARY}/tree -B ${BINARY}/build ${settings} ${options} -DVKATTN_SPIRV_FOLDER=${BINARY}/spirv
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what} is refused:\n${output}")
  endif()
  file(STRINGS ${BINARY}/spirv/bank.txt held REGEX "coopmat")
  file(STRINGS ${BINARY}/build/src/shader_bank.cpp built REGEX "^    {{[a-z0-9_]*coopmat.*sizeof")
  list(TRANSFORM built REPLACE "^    {{([a-z0-9_]*), .*$" "\\1")
  if(NOT "${held}" STREQUAL "${built}")
    message(FATAL_ERROR "${what} holds '${held}', built in are '${built}'")
  endif()
  message("${what}: ${held}")
endfunction()
taken("the bank of this very build")
# The bank of a compiler without matrices: other modules are there, though a file of the last bank
# may still lie beside them.
file(STRINGS ${BINARY}/spirv/bank.txt lines)
list(FILTER lines EXCLUDE REGEX coopmat)
list(JOIN lines "\n" lines)
file(WRITE ${BINARY}/spirv/bank.txt "${lines}\n")
taken("a bank without matrices")
# A bank that lists a module and does not hold it.
file(APPEND ${BINARY}/spirv/bank.txt "flash_coopmat_f16\n")
file(REMOVE ${BINARY}/spirv/flash_coopmat_f16_nan.inc)
expect(${BINARY}/tree "has no flash_coopmat_f16(_nan)?.inc" -DVKATTN_SPIRV_FOLDER=${BINARY}/spirv)
file(COPY ${SPIRV}/ DESTINATION ${BINARY}/spirv)
file(APPEND ${BINARY}/tree/shaders/lib/math.glsl "// changed\n")
expect(${BINARY}/tree "was made from other shaders than these" -DVKATTN_SPIRV_FOLDER=${BINARY}/spirv)
# Without either. (A build folder of its own; an empty path, so that no glslc is found.)
file(REMOVE_RECURSE ${BINARY}/build)
list(REMOVE_ITEM options -DVulkan_GLSLC_EXECUTABLE=Vulkan_GLSLC_EXECUTABLE-NOTFOUND)
expect(${BINARY}/tree "glslc was not found: install it" -DVKATTN_SPIRV_FOLDER= -DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF
  -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF -DVulkan_INCLUDE_DIR=${BINARY})
