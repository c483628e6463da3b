# No library of ours defines a symbol of Vulkan's or volk's: it would take the place of the loader's
# functions, or of another volk, in the program that links it. And core needs nothing that it does
# not say: no vk* function is called by name.
foreach(library ${CORE} ${RUNTIME})
  execute_process(COMMAND ${NM} ${library} OUTPUT_VARIABLE symbols ERROR_QUIET RESULT_VARIABLE failed)
  if(failed OR NOT symbols MATCHES "vkattn")
    message(FATAL_ERROR "${NM} ${library} shows no symbols of ours")
  endif()
  string(REGEX MATCHALL "[^\n]* [A-TV-Zu] (vk[A-Z]|volk)[A-Za-z]*" defined "${symbols}")
  if(defined)
    list(LENGTH defined count)
    message(FATAL_ERROR "${library} defines ${count} symbols of Vulkan or volk, such as ${defined}")
  endif()
endforeach()
execute_process(COMMAND ${NM} -u ${CORE} OUTPUT_VARIABLE symbols)
if(symbols MATCHES " U (vk[A-Z][A-Za-z]*|_Znwm|_Znam|__cxa_throw|getenv|setlocale|pthread_[a-z_]*|fopen|abort)\n")
  message(FATAL_ERROR "core uses ${CMAKE_MATCH_1}")
endif()
# A C program links core with the C compiler alone. Where libstdc++ checks itself it calls one
# function of its own.
string(REGEX MATCHALL " U (_ZNK?St|_ZSt|__cxa_|__gxx_)[A-Za-z0-9_]*" cxx "${symbols}")
list(FILTER cxx EXCLUDE REGEX "__glibcxx_assert_fail")
if(cxx)
  message(FATAL_ERROR "core uses the C++ library:${cxx}")
endif()
message(STATUS "no foreign symbols")
