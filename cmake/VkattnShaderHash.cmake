# vkattn_shader_hash(variable shaders_folder): one hash over everything that decides what the SPIR-V
# is: the shaders, what they include, and the list of modules with their defines. The same for
# either kind of line ending.
# As a script, this file writes bank.txt of a bank that was just compiled (the hash, and the names
# of the modules that the bank holds): cmake -DSHADERS=folder -DBUILT=file -DOUTPUT=file -P ..., or with -DNUMBER=file alone the hash
# as a number of C++.
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

# vkattn_write_source_hash(output shaders): a command that writes the first 64 bits of the hash as a number of C, whenever one of the
# shaders changes.
set(vkattn_shader_hash_script ${CMAKE_CURRENT_LIST_FILE})
function(vkattn_write_source_hash output folder)
  file(GLOB_RECURSE shaders CONFIGURE_DEPENDS ${folder}/*)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DSHADERS=${folder} -DNUMBER=${output} -P ${vkattn_shader_hash_script}
    DEPENDS ${shaders} ${vkattn_shader_hash_script} COMMENT "hash of the shaders as a number" VERBATIM)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  vkattn_shader_hash(hash ${SHADERS})
  if(NUMBER)
    string(SUBSTRING ${hash} 0 16 hash)
    file(WRITE ${NUMBER} "0x${hash}ull\n")
    return()
  endif()
  file(READ ${BUILT} built)
  file(WRITE ${OUTPUT} "${hash}\n${built}")
endif()
