# vkattn_add_library(NAME sources...): library target vkattn_NAME with alias vkattn::NAME, house
# warnings and language level. Flags stay on our own targets; nothing is set globally. Nor do the
# host's flags and settings reach in where ours would break:
#   -ffast-math          NaN and infinity have a meaning here, and error bounds count roundings:
#                        -fno-fast-math, /fp:precise
#   -fno-exceptions      cpu and runtime answer std::bad_alloc, thrown inside, with
#                        OUT_OF_HOST_MEMORY: -fexceptions. Core has none
#   CMAKE_UNITY_BUILD    names of unnamed namespaces are those of one file, and Highway includes
#                        kernels.cpp several times: UNITY_BUILD OFF
function(vkattn_house_rules target)
  target_compile_features(${target} PRIVATE cxx_std_20 c_std_99)
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  if(target MATCHES "^vkattn_(problem|core|cpu|runtime)$")
    target_compile_options(${target} PRIVATE
      $<$<CXX_COMPILER_ID:GNU,Clang,AppleClang>:-fno-fast-math> $<$<CXX_COMPILER_ID:MSVC>:/fp:precise>
      # clang's warning that the one overrides the other
      $<$<CXX_COMPILER_ID:Clang,AppleClang>:-Wno-overriding-t-option>)
  endif()
  if(target MATCHES "^vkattn_(cpu|runtime)$")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:$<IF:$<CXX_COMPILER_ID:MSVC>,/EHsc,-fexceptions>>)
  endif()
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU,Clang,AppleClang>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-missing-field-initializers>
    $<$<CXX_COMPILER_ID:MSVC>:/W4 /permissive- /utf-8>)
  if(VKATTN_WERROR)
    target_compile_options(${target} PRIVATE $<IF:$<CXX_COMPILER_ID:MSVC>,/WX,-Werror>)
  endif()
  if(VKATTN_SANITIZE STREQUAL "thread")
    target_compile_options(${target} PRIVATE -fsanitize=thread -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=thread)
  elseif(VKATTN_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  endif()
endfunction()

option(VKATTN_GROUP_SOURCES "Compile some sources of programs and tests together: half the time. The sanitizer builds compile each alone" ON)
# vkattn_one_source(TARGET NAME SOURCE...): compiles sources of this folder as one, where most of the
# time goes into the same inline functions of headers.
function(vkattn_one_source target name)
  if(NOT VKATTN_GROUP_SOURCES)
    return()
  endif()
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${sources} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${name})
endfunction()

function(vkattn_add_library name)
  add_library(vkattn_${name} ${ARGN})
  add_library(vkattn::${name} ALIAS vkattn_${name})
  set_target_properties(vkattn_${name} PROPERTIES EXPORT_NAME ${name} C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  target_include_directories(vkattn_${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}> PRIVATE ${PROJECT_SOURCE_DIR}/src)
  vkattn_house_rules(vkattn_${name})
  if(VKATTN_SHARED)
    # problem.h makes VKATTN_API of them
    target_compile_definitions(vkattn_${name} PUBLIC VKATTN_SHARED PRIVATE VKATTN_BUILDING)
  endif()
endfunction()

# vkattn_add_public_library(NAME sources...): one that users link: static, or shared with
# VKATTN_SHARED. `problem` lies under core and cpu: as an archive of its own beside static ones (two
# archives with the same objects clash under --whole-archive), inside each of the shared ones (whose
# inner symbols are nobody else's).
function(vkattn_add_public_library name)
  if(NOT VKATTN_SHARED)
    vkattn_add_library(${name} STATIC ${ARGN})
    return()
  endif()
  vkattn_add_library(${name} SHARED ${ARGN})
  set_target_properties(vkattn_${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${vkattn_soversion})
  # Inline functions of the standard library have default visibility: only a list keeps them in.
  if(APPLE)
    set(list ${PROJECT_SOURCE_DIR}/cmake/exports.txt)
    target_link_options(vkattn_${name} PRIVATE -Wl,-exported_symbols_list,${list})
    set_target_properties(vkattn_${name} PROPERTIES LINK_DEPENDS ${list} INSTALL_RPATH @loader_path)
  elseif(UNIX)
    set(list ${PROJECT_SOURCE_DIR}/cmake/exports.map)
    # -Bsymbolic-functions: a call to its own function stays its own, whatever copy of vkattn the
    # program has besides.
    target_link_options(vkattn_${name} PRIVATE -Wl,--version-script=${list} -Wl,-Bsymbolic-functions)
    if(NOT VKATTN_SANITIZE)
      target_link_options(vkattn_${name} PRIVATE -Wl,-z,defs)
    endif()
    set_target_properties(vkattn_${name} PROPERTIES LINK_DEPENDS ${list} INSTALL_RPATH $ORIGIN)
  endif()
endfunction()

# Links `problem` under a library that users link.
function(vkattn_link_problem target)
  if(VKATTN_SHARED)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:vkattn_problem>)
  else()
    target_link_libraries(${target} PUBLIC vkattn::problem)
  endif()
endfunction()

function(vkattn_add_program name)
  add_executable(${name} ${ARGN})
  vkattn_house_rules(${name})
endfunction()

# Writes volk_names.h, which gives every symbol that volk defines a name of our own (vkCreateDevice
# -> vkattn_volk_vkCreateDevice). volk's global variables carry the names of Vulkan's functions:
# linked into a program that calls the loader's functions, or that has a volk of its own, they would
# take the place of those.
function(vkattn_rename_volk folder output)
  file(STRINGS ${folder}/volk.h lines REGEX "^extern PFN_|^[A-Za-z0-9_]+ volk[A-Za-z]+\\(")
  set(text "/* Generated by cmake/VkattnTargets.cmake from volk.h. */\n")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "PFN_vk" "" line "${line}")
    string(REGEX MATCH "(vk|volk)[A-Za-z0-9]+" name "${line}")
    string(APPEND text "#define ${name} vkattn_volk_${name}\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output}/volk_names.h CONTENT "${text}" @ONLY)
endfunction()
