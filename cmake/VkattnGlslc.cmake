# What the found glslc can compile. A module whose defines need more than that is left out: it is
# embedded as absent, and the planner then says why the kernel cannot run (ShaderModule::built).
#
# The library's modules are compiled with -O (cmake/VkattnShaders.cmake): NVIDIA's compiler makes flash and
# decode 2.7 times as fast of them (docs/performance.md, How shaders are specialized). Programs and probes
# are not: the optimiser takes ten times as long as all else.

# define of a module | what its defines ask of the compiler: the name of a file in cmake/probes, or
# - | --target-env
set(vkattn_shader_needs
  "VKATTN_SUBGROUPS | - | vulkan1.1" # SPIR-V 1.3
  "VKATTN_COOPMAT | GL_KHR_cooperative_matrix | vulkan1.1"
  "VKATTN_COOPMAT2 | GL_NV_cooperative_matrix2 | vulkan1.3"
  "VKATTN_BF16 | GL_EXT_bfloat16 | vulkan1.1")
set(vkattn_probes ${CMAKE_CURRENT_LIST_DIR}/probes)

# vkattn_shader_needs(environment abilities define...): the highest environment of the defines, and
# every ability.
function(vkattn_shader_needs environment_variable abilities_variable)
  set(environment vulkan1.0)
  set(abilities)
  foreach(row IN LISTS vkattn_shader_needs)
    string(REPLACE " | " ";" row "${row}")
    list(GET row 0 define)
    list(GET row 1 ability)
    list(GET row 2 needed)
    if(define IN_LIST ARGN)
      if(needed STRGREATER environment)
        set(environment ${needed})
      endif()
      if(NOT ability STREQUAL "-")
        list(APPEND abilities ${ability})
      endif()
    endif()
  endforeach()
  set(${environment_variable} ${environment} PARENT_SCOPE)
  set(${abilities_variable} "${abilities}" PARENT_SCOPE)
endfunction()

# vkattn_probe_glslc(): sets vkattn_glslc_abilities, from the cache where this compiler and these
# probes were there before, and vkattn_glslc_version (the first line of --version without the
# program's name).
function(vkattn_probe_glslc)
  execute_process(COMMAND ${Vulkan_GLSLC_EXECUTABLE} --version RESULT_VARIABLE status OUTPUT_VARIABLE version ERROR_VARIABLE error)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${Vulkan_GLSLC_EXECUTABLE} --version failed (${status}): ${error}\n"
      "Set Vulkan_GLSLC_EXECUTABLE to a glslc that runs")
  endif()
  set(key "${Vulkan_GLSLC_EXECUTABLE}\n${version}${vkattn_shader_needs}\n")
  file(GLOB probes ${vkattn_probes}/*.comp)
  # Another compiler is asked again.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${probes} ${Vulkan_GLSLC_EXECUTABLE})
  foreach(probe IN LISTS probes)
    file(SHA256 ${probe} hash)
    string(APPEND key ${hash})
  endforeach()
  string(SHA256 key "${key}")
  if(NOT VKATTN_GLSLC_PROBED STREQUAL key)
    set(found)
    foreach(row IN LISTS vkattn_shader_needs)
      string(REPLACE " | " ";" row "${row}")
      list(GET row 1 ability)
      list(GET row 2 environment)
      if(NOT ability STREQUAL "-")
        execute_process(COMMAND ${Vulkan_GLSLC_EXECUTABLE} --target-env=${environment} -mfmt=num -o - ${vkattn_probes}/${ability}.comp
          RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
        if(status EQUAL 0)
          list(APPEND found ${ability})
        endif()
      endif()
    endforeach()
    set(VKATTN_GLSLC_ABILITIES "${found}" CACHE INTERNAL "Which of cmake/probes the found glslc compiles")
    set(VKATTN_GLSLC_PROBED ${key} CACHE INTERNAL "Hash of the glslc and the probes that VKATTN_GLSLC_ABILITIES is of")
  endif()
  string(REGEX REPLACE "^(shaderc )?v?([^\n-]*)[^\n]*\n.*$" "\\2" version "${version}")
  set(vkattn_glslc_version "${version}" PARENT_SCOPE)
  set(vkattn_glslc_abilities "${VKATTN_GLSLC_ABILITIES}" PARENT_SCOPE)
endfunction()

# vkattn_program_shaders(target files...): compiles a program's own compute shaders, for Vulkan 1.0.
# Sources of the target include their words as "NAME.inc".
function(vkattn_program_shaders target)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${generated})
  foreach(file IN LISTS ARGN)
    get_filename_component(name ${file} NAME_WE)
    add_custom_command(OUTPUT ${generated}/${name}.inc
      COMMAND ${Vulkan_GLSLC_EXECUTABLE} --target-env=vulkan1.0 -Werror -mfmt=num -o ${generated}/${name}.inc ${CMAKE_CURRENT_SOURCE_DIR}/${file}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file} COMMENT "glslc ${name}.comp" VERBATIM)
    target_sources(${target} PRIVATE ${generated}/${name}.inc)
  endforeach()
  target_include_directories(${target} PRIVATE ${generated})
endfunction()

# vkattn_kernel_summary(): one line at the end of configuring. vkattn_embed_shaders notes what it
# did in global properties.
function(vkattn_kernel_summary)
  set(plain staged)
  get_property(chosen GLOBAL PROPERTY vkattn_kernels_chosen)
  set(of_types)
  foreach(what built left_out)
    get_property(modules GLOBAL PROPERTY vkattn_modules_${what})
    set(kernels)
    foreach(module IN LISTS modules) # NAME_f16, NAME_bf16: NAME (f16, bf16)
      string(REGEX MATCH "^(.*)_([^_]*)$" module ${module})
      if(NOT CMAKE_MATCH_1 IN_LIST chosen) # a module of an operation beside attention
        continue()
      endif()
      list(APPEND kernels ${CMAKE_MATCH_1})
      list(APPEND types_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
    endforeach()
    list(REMOVE_DUPLICATES kernels)
    list(APPEND of_types ${kernels})
    set(${what})
    foreach(kernel IN LISTS kernels)
      list(JOIN types_${kernel} ", " types)
      unset(types_${kernel})
      list(APPEND ${what} "${kernel} (${types})")
    endforeach()
    list(JOIN ${what} ", " ${what})
  endforeach()
  get_property(kernels GLOBAL PROPERTY vkattn_kernels_chosen)
  foreach(kernel IN LISTS kernels)
    if(NOT kernel IN_LIST of_types)
      list(APPEND plain ${kernel})
    endif()
  endforeach()
  list(JOIN plain ", " line)
  if(built)
    string(APPEND line ", ${built}")
  endif()
  if(left_out)
    get_property(why GLOBAL PROPERTY vkattn_modules_left_out_why)
    string(APPEND line "; left out: ${left_out} (${why})")
  endif()
  get_property(kernels GLOBAL PROPERTY vkattn_kernels_left_out)
  if(kernels)
    list(JOIN kernels ", " kernels)
    string(APPEND line "; not in VKATTN_KERNELS: ${kernels}")
  endif()
  message(STATUS "vkattn kernels: ${line}")
endfunction()
