# vkattn_add_library(NAME sources...): library target vkattn_NAME with alias vkattn::NAME, house warnings and language level.
# Flags stay on our own targets; nothing is set globally.
function(vkattn_house_rules target)
  target_compile_features(${target} PRIVATE cxx_std_20 c_std_99)
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU,Clang,AppleClang>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-missing-field-initializers>
    $<$<CXX_COMPILER_ID:MSVC>:/W4 /permissive- /utf-8>)
  if(VKATTN_WERROR)
    target_compile_options(${target} PRIVATE $<IF:$<CXX_COMPILER_ID:MSVC>,/WX,-Werror>)
  endif()
  if(VKATTN_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  endif()
endfunction()

function(vkattn_add_library name)
  add_library(vkattn_${name} ${ARGN})
  add_library(vkattn::${name} ALIAS vkattn_${name})
  set_target_properties(vkattn_${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  target_include_directories(vkattn_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
  vkattn_house_rules(vkattn_${name})
endfunction()

function(vkattn_add_program name)
  add_executable(${name} ${ARGN})
  vkattn_house_rules(${name})
endfunction()
