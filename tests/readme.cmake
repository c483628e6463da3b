# The snippet of the README and of docs/embedding.md is cut from a sample that is compiled
# (tests/headers.cmake, with every warning an error) and run: between the two marks in
# samples/embed/main.cpp, indentation removed.
file(READ ${SOURCE}/samples/embed/main.cpp sample)
if(NOT sample MATCHES "// README begin(\n.*)\n *// README end")
  message(FATAL_ERROR "samples/embed/main.cpp has no README marks")
endif()
string(REPLACE "\n    " "\n" snippet "${CMAKE_MATCH_1}")
foreach(page README.md docs/embedding.md)
  file(READ ${SOURCE}/${page} text)
  string(FIND "${text}" "${snippet}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${page} does not hold this snippet of samples/embed/main.cpp:\n${snippet}")
  endif()
endforeach()
