# vkattn_shader_hash(variable shaders_folder): one hash over everything that decides what the SPIR-V
# is: the shaders, what they include, and the list of modules with their defines. The same for
# either kind of line ending.
# As a script, this file writes bank.txt of a bank that was just compiled (the hash, and the names
# of the modules that the bank holds): cmake -DSHADERS=folder -DBUILT=file -DOUTPUT=file -P ...
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.22)
endif()

function(vkattn_shader_hash variable shaders)
  file(GLOB_RECURSE files RELATIVE ${shaders} ${shaders}/*)
  list(SORT files)
  set(text)
  foreach(file IN LISTS files)
    file(READ ${shaders}/${file} content)
    string(REPLACE "\r\n" "\n" content "${content}")
    string(SHA256 hash "${content}")
    string(APPEND text "${file} ${hash}\n")
  endforeach()
  string(SHA256 hash "${text}")
  set(${variable} ${hash} PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  vkattn_shader_hash(hash ${SHADERS})
  file(READ ${BUILT} built)
  file(WRITE ${OUTPUT} "${hash}\n${built}")
endif()
