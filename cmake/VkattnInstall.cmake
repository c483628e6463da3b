# Install rules: component `vkattn` is the libraries, headers, CMake package and pkg-config files;
# `tool` is the command-line tool; `spirv` (cmake/VkattnShaders.cmake) is only installed by name.
# Every path in what is installed is relative to where it lies: a prefix can be moved.
include(CMakePackageConfigHelpers)

set(components core)
if(VKATTN_BUILD_CPU)
  list(APPEND components cpu)
endif()
if(VKATTN_BUILD_RUNTIME)
  list(APPEND components runtime)
endif()
if(VKATTN_BUILD_PROGRAM)
  list(APPEND components program)
endif()
set(headers_program program.hpp)
set(headers_core problem.h operations.h gradient.h linear.h linear_gradient.h statistics.h visible_blocks.h traits.hpp operations.hpp layer.h latent_layer.h layer_gradient.h vkattn.h vkattn.hpp)
set(headers_cpu problem.h operations.h gradient.h linear.h linear_gradient.h statistics.h visible_blocks.h cpu.h)
set(headers_runtime list.hpp runtime.hpp)
set(libraries ${components})
if(NOT VKATTN_SHARED)
  list(PREPEND libraries problem)
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/vkattn)
foreach(name IN LISTS libraries)
  # A set for each: whoever asks for one component needs what that one needs, no more.
  install(TARGETS vkattn_${name} EXPORT vkattn_${name}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT vkattn
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT vkattn
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT vkattn)
  install(EXPORT vkattn_${name} FILE vkattnTargets-${name}.cmake NAMESPACE vkattn:: DESTINATION ${package} COMPONENT vkattn)
  list(TRANSFORM headers_${name} PREPEND ${PROJECT_SOURCE_DIR}/include/vkattn/ OUTPUT_VARIABLE headers)
  install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/vkattn COMPONENT vkattn)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT vkattn)
if(TARGET vkattn_tool)
  install(TARGETS vkattn_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tool)
endif()

set(generated ${CMAKE_CURRENT_BINARY_DIR}/package)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/vkattnConfig.cmake.in ${generated}/vkattnConfig.cmake INSTALL_DESTINATION ${package}
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file(${generated}/vkattnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${generated}/vkattnConfig.cmake ${generated}/vkattnConfigVersion.cmake ${PROJECT_SOURCE_DIR}/cmake/VkattnVulkanHeaders.cmake
  ${PROJECT_SOURCE_DIR}/cmake/VkattnShaderc.cmake ${PROJECT_SOURCE_DIR}/cmake/VkattnCompileProgram.cmake ${PROJECT_SOURCE_DIR}/cmake/VkattnModules.cmake
  ${PROJECT_SOURCE_DIR}/cmake/VkattnGlslc.cmake ${PROJECT_SOURCE_DIR}/cmake/VkattnShaderHash.cmake
  DESTINATION ${package} COMPONENT vkattn)

# What vkattn_compile_program compiles programs with.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/shaders ${PROJECT_SOURCE_DIR}/cmake/probes DESTINATION ${package} COMPONENT vkattn)

# pkg-config. The prefix is found from the place of the .pc file.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
  set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
  set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
  file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" pc_prefix "\${pcfiledir}/${pc_prefix}")
  set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
set(pc_cflags)
if(VKATTN_SHARED)
  set(pc_cflags " -DVKATTN_SHARED")
endif()

# vkattn_pkg_config(component description "what it requires" flags...): the requirements of a static
# library are those of the archive itself.
function(vkattn_pkg_config pc_name pc_description pc_requires)
  list(JOIN ARGN " " pc_libs)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/vkattn.pc.in ${generated}/vkattn-${pc_name}.pc @ONLY)
  install(FILES ${generated}/vkattn-${pc_name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT vkattn)
endfunction()

set(standard_library) # of C++, for programs that a C compiler links: cpu and runtime need it
foreach(library IN LISTS CMAKE_CXX_IMPLICIT_LINK_LIBRARIES)
  if(library MATCHES "^(std)?c[+][+]$")
    list(APPEND standard_library -l${library})
  endif()
endforeach()
set(math)
if(UNIX)
  set(math -lm)
endif()
if(VKATTN_SHARED)
  vkattn_pkg_config(core "attention recorded into your Vulkan command buffer" "" -lvkattn_core)
  vkattn_pkg_config(cpu "attention on the CPU, and the oracle" "" -lvkattn_cpu)
  vkattn_pkg_config(runtime "attention with a Vulkan device of its own" "vkattn-core = ${PROJECT_VERSION}, vkattn-cpu = ${PROJECT_VERSION}"
    -lvkattn_runtime)
  if("program" IN_LIST components)
    vkattn_pkg_config(program "programs of hooks, compiled at run time" "vkattn-core = ${PROJECT_VERSION}" -lvkattn_program)
  endif()
else()
  # Core needs none of the C++ library, but for what reports a broken assertion where libstdc++
  # checks itself.
  include(CheckCXXSymbolExists)
  set(CMAKE_TRY_COMPILE_CONFIGURATION ${CMAKE_BUILD_TYPE})
  check_cxx_symbol_exists(_GLIBCXX_ASSERTIONS cstddef VKATTN_LIBSTDCXX_ASSERTIONS)
  set(standard_library_of_core)
  if(VKATTN_LIBSTDCXX_ASSERTIONS)
    set(standard_library_of_core ${standard_library})
  endif()
  vkattn_pkg_config(core "attention recorded into your Vulkan command buffer" "" -lvkattn_core -lvkattn_problem ${standard_library_of_core}
    ${math})
  if("cpu" IN_LIST components)
    vkattn_pkg_config(cpu "attention on the CPU, and the oracle" "libhwy >= 1.0.3" -lvkattn_cpu -lvkattn_problem ${standard_library} ${math}
      ${CMAKE_THREAD_LIBS_INIT})
  endif()
  if("runtime" IN_LIST components)
    list(TRANSFORM CMAKE_DL_LIBS PREPEND -l OUTPUT_VARIABLE dl)
    vkattn_pkg_config(runtime "attention with a Vulkan device of its own" "vkattn-core = ${PROJECT_VERSION}, vkattn-cpu = ${PROJECT_VERSION}"
      -lvkattn_runtime ${dl})
  endif()
  if("program" IN_LIST components)
    vkattn_pkg_config(program "programs of hooks, compiled at run time" "vkattn-core = ${PROJECT_VERSION}, shaderc" -lvkattn_program
      ${standard_library})
  endif()
endif()
