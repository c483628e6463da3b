# Every header of the library compiles by itself. In the library's own build files are compiled in groups
# (VKATTN_GROUP_SOURCES), where a header that lacks an include finds what another file has included; hosts
# that take the sources, and fuzz targets, compile each file alone. SOURCE, COMPILER, BUILD (with generated
# files), VULKAN (its headers).
#
# Files *-inl.hpp are parts of other files: Highway includes them once for each target.
cmake_minimum_required(VERSION 3.22)
list(TRANSFORM VULKAN PREPEND -idirafter)
set(headers)
foreach(folder core cpu problem util)
  file(GLOB_RECURSE found RELATIVE ${SOURCE}/src ${SOURCE}/src/${folder}/*.hpp)
  list(APPEND headers ${found})
endforeach()
list(FILTER headers EXCLUDE REGEX "-inl\\.hpp$")
list(LENGTH headers count)
if(count LESS 50)
  message(FATAL_ERROR "only ${count} headers below ${SOURCE}/src")
endif()
set(wrong)
set(file ${CMAKE_CURRENT_BINARY_DIR}/own_header.cpp)
foreach(header IN LISTS headers)
  file(WRITE ${file} "#include \"${header}\"\n")
  execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I${SOURCE}/src -I${SOURCE}/include -I${SOURCE}/shaders -I${BUILD}/generated -I${BUILD}/volk ${VULKAN} ${file}
    RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    string(APPEND wrong "src/${header} does not compile by itself: include what it uses\n${output}")
  endif()
endforeach()
file(REMOVE ${file})
if(wrong)
  message(FATAL_ERROR "${wrong}")
endif()
message(STATUS "${count} headers compile by themselves")
