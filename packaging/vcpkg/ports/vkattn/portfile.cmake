# An overlay port of the tree it lies in. In a registry these two lines become vcpkg_from_github
# with REF "v${VERSION}" and its SHA512.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
message(STATUS "vkattn: building from ${SOURCE_PATH}")

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS
  FEATURES
    cpu VKATTN_BUILD_CPU
    runtime VKATTN_BUILD_RUNTIME)

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    ${FEATURE_OPTIONS}
    -DVKATTN_INSTALL=ON
    -DVKATTN_BUILD_TOOL=OFF
    -DVKATTN_BUILD_SAMPLES=OFF
    -DVKATTN_BUILD_BENCH=OFF
    -DVKATTN_BUILD_TESTS=OFF
    "-DVulkan_INCLUDE_DIR=${CURRENT_INSTALLED_DIR}/include"
    "-DVulkan_GLSLC_EXECUTABLE=${CURRENT_HOST_INSTALLED_DIR}/tools/shaderc/glslc${VCPKG_HOST_EXECUTABLE_SUFFIX}"
  MAYBE_UNUSED_VARIABLES
    Vulkan_INCLUDE_DIR)
vcpkg_cmake_install()
vcpkg_copy_pdbs()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/vkattn)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share" "${CURRENT_PACKAGES_DIR}/share/doc")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
