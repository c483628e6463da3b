# vkattn_compile_program(TARGET FILE NAME): compiles a program (docs/programs.md) at build time, with glslc, for hosts that ship no compiler.
# FILE has the hooks; sources of TARGET include "NAME.h", which declares `extern const vkattn_program NAME` (vkattn/problem.h). What glslc cannot
# compile is left out, and the planner then says why a kernel cannot run the program. The form for the processor, where there is one, goes into
# a copy of the struct. In the project and in the package that it installs.
include_guard(GLOBAL)
include(${CMAKE_CURRENT_LIST_DIR}/VkattnModules.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/VkattnGlslc.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/VkattnShaderHash.cmake)

# The shaders: beside this file where it is installed.
set(vkattn_program_shaders_folder ${CMAKE_CURRENT_LIST_DIR}/shaders)
if(NOT EXISTS ${vkattn_program_shaders_folder})
  get_filename_component(vkattn_program_shaders_folder ${CMAKE_CURRENT_LIST_DIR}/../shaders ABSOLUTE)
endif()

# vkattn_hooks_of(hooks bits file): the names SCORE, VISIBLE, PROBABILITY, ROW and SCORE_SLOPE that a text has hooks for, and their vkattn_hook_bits.
function(vkattn_hooks_of hooks_variable bits_variable file)
  file(READ ${file} text)
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" "" text "${text}")
  if(text MATCHES "(^|\n)[ \t]*#[^\n]*")
    message(FATAL_ERROR "${file}: '${CMAKE_MATCH_0}': a program has no preprocessor lines, expected functions and constants alone")
  endif()
  set(hooks)
  set(bits 0)
  foreach(row "Score SCORE 1 float" "Visible VISIBLE 2 bool" "ScoreSlope SCORE_SLOPE 4 float" "Probability PROBABILITY 8 float" "Row ROW 16 float")
    separate_arguments(row)
    list(GET row 0 name)
    list(GET row 1 define)
    list(GET row 2 bit)
    list(GET row 3 type)
    if(text MATCHES "(^|[^A-Za-z0-9_])${type}[ \t\n]+vkattn${name}[ \t\n]*\\(")
      list(APPEND hooks ${define})
      math(EXPR bits "${bits} | ${bit}")
    endif()
  endforeach()
  if(NOT "SCORE" IN_LIST hooks AND NOT "VISIBLE" IN_LIST hooks AND NOT "PROBABILITY" IN_LIST hooks AND NOT "ROW" IN_LIST hooks)
    message(FATAL_ERROR "${file}: no hook, expected float vkattnScore(float score, uint batch, uint head, uint query, uint key), "
      "bool vkattnVisible(uint batch, uint head, uint query, uint key), float vkattnProbability(float p, uint batch, uint head, uint query, uint key) "
      "or float vkattnRow(float score)")
  endif()
  set(${hooks_variable} ${hooks} PARENT_SCOPE)
  set(${bits_variable} ${bits} PARENT_SCOPE)
endfunction()

function(vkattn_compile_program target file name)
  if(NOT Vulkan_GLSLC_EXECUTABLE)
    find_program(Vulkan_GLSLC_EXECUTABLE glslc HINTS ENV VULKAN_SDK PATH_SUFFIXES bin DOC "glslc, at build time")
  endif()
  if(NOT Vulkan_GLSLC_EXECUTABLE)
    message(FATAL_ERROR "vkattn_compile_program: glslc was not found: install it (Debian: glslc) or set Vulkan_GLSLC_EXECUTABLE")
  endif()
  if(NOT name MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
    message(FATAL_ERROR "vkattn_compile_program: the name '${name}' is no identifier of C")
  endif()
  get_filename_component(file ${file} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  vkattn_hooks_of(hooks bits ${file})
  vkattn_probe_glslc()
  set(shaders ${vkattn_program_shaders_folder})
  vkattn_read_modules(${shaders}/modules.txt)
  file(READ ${file} text)
  string(REPLACE "@" "@at@" escaped "${text}") # which file(CONFIGURE) replaces
  set(at "@")
  string(SHA256 own_hash "${vkattn_glslc_version} ${text}")
  string(SUBSTRING ${own_hash} 0 16 own_hash)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/programs/${name})
  file(MAKE_DIRECTORY ${folder}/include)
  # The compiler's messages name the host's file.
  file(CONFIGURE OUTPUT ${folder}/include/vkattn_program.glsl CONTENT "#line 1 \"${file}\"\n${escaped}\n" @ONLY)
  file(GLOB_RECURSE includes ${shaders}/*)
  set(defines -DVKATTN_PROGRAM)
  foreach(hook IN LISTS hooks)
    list(APPEND defines -DVKATTN_HOOK_${hook})
  endforeach()
  set(arrays)
  set(table)
  vkattn_write_source_hash(${folder}/shader_hash.inc ${shaders})
  set(outputs ${folder}/shader_hash.inc)
  foreach(module IN LISTS vkattn_modules)
    if(NOT vkattn_module_${module}_hooks)
      continue()
    endif()
    vkattn_shader_needs(environment missing ${vkattn_module_${module}_defines})
    if(missing)
      list(REMOVE_ITEM missing ${vkattn_glslc_abilities})
    endif()
    if(missing)
      continue()
    endif()
    set(own ${vkattn_module_${module}_defines})
    list(TRANSFORM own PREPEND -D)
    foreach(variant "" "_nan")
      set(output ${folder}/${module}${variant}.inc)
      set(nan)
      if(variant)
        set(nan -DVKATTN_FLOAT_CONTROLS)
      endif()
      add_custom_command(OUTPUT ${output}
        COMMAND ${Vulkan_GLSLC_EXECUTABLE} --target-env=${environment} ${own} ${nan} ${defines} -I${shaders} -I${folder}/include -mfmt=num
          -o ${output} ${shaders}/${vkattn_module_${module}_file}
        DEPENDS ${file} ${includes} ${folder}/include/vkattn_program.glsl COMMENT "glslc ${name}: ${module}${variant}" VERBATIM)
      list(APPEND outputs ${output})
      string(APPEND arrays "static const uint32_t ${module}${variant}[] = {\n#include \"${output}\"\n};\n")
    endforeach()
    string(APPEND table "    {\"${module}\", {${module}, ${module}_nan}, {sizeof ${module}, sizeof ${module}_nan}},\n")
  endforeach()
  get_filename_component(shown ${file} NAME)
  file(CONFIGURE OUTPUT ${folder}/include/${name}.h CONTENT "/* Generated by vkattn_compile_program from ${shown}. */
#include <vkattn/problem.h>
#ifdef __cplusplus
extern \"C\" {
#endif
extern const vkattn_program ${name};
#ifdef __cplusplus
}
#endif
" @ONLY)
  file(CONFIGURE OUTPUT ${folder}/${name}.c CONTENT "/* Generated by vkattn_compile_program from ${shown}. */
#include \"${name}.h\"
${arrays}static const vkattn_program_module modules[] = {
${table}};
const vkattn_program ${name} = {sizeof(vkattn_program), ${bits}, \"${shown}\", UINT64_C(0x${own_hash}) ^
#include \"shader_hash.inc\"
    ,
#include \"shader_hash.inc\"
    , modules, sizeof modules / sizeof modules[0], 0, 0, 0, 0, 0};
" @ONLY)
  set_source_files_properties(${folder}/${name}.c PROPERTIES OBJECT_DEPENDS "${outputs}" SKIP_UNITY_BUILD_INCLUSION ON
    SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE ${folder}/${name}.c)
  target_include_directories(${target} PRIVATE ${folder}/include)
endfunction()
