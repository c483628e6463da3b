# vkattn_find_vulkan_headers(why): makes Vulkan::Headers, or says in `why` that it cannot. Headers
# are all that vkattn::core has of Vulkan: FindVulkan.cmake wants a loader library too. Used by the
# build and, installed, by the package.
macro(vkattn_find_vulkan_headers why)
  set(${why} "")
  if(NOT TARGET Vulkan::Headers)
    find_package(VulkanHeaders CONFIG QUIET)
  endif()
  if(NOT TARGET Vulkan::Headers)
    # FindVulkan's name
    find_path(Vulkan_INCLUDE_DIR vulkan/vulkan_core.h HINTS ENV VULKAN_SDK PATH_SUFFIXES include DOC "Folder with vulkan/vulkan_core.h")
    if(Vulkan_INCLUDE_DIR)
      add_library(Vulkan::Headers INTERFACE IMPORTED)
      set_target_properties(Vulkan::Headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${Vulkan_INCLUDE_DIR}")
    else()
      set(${why} "vulkan/vulkan_core.h was not found: install the Vulkan headers (Debian: libvulkan-dev), set VULKAN_SDK, or set \
Vulkan_INCLUDE_DIR to the folder above vulkan/")
    endif()
  endif()
endmacro()
