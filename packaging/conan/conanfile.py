"""Conan 2 recipe of the tree it lies in: conan create packaging/conan. glslc must be on the PATH,
or the option spirv names a bank of SPIR-V."""

import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rmdir

required_conan_version = ">=2.0"


class Vkattn(ConanFile):
    name = "vkattn"
    version = "0.1.0"
    description = "Attention for Vulkan: recorded into your own command buffer, with a CPU fallback and an oracle"
    license = "MIT"
    topics = ("vulkan", "attention", "transformer", "gpu", "compute")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],
        "fPIC": [True, False],
        "cpu": [True, False],
        "runtime": [True, False],
        "spirv": [None, "ANY"],  # a folder that `cmake --install BUILD --component spirv` wrote
    }
    default_options = {"shared": False, "fPIC": True, "cpu": True, "runtime": False, "spirv": None}
    implements = ["auto_shared_fpic"]

    def export_sources(self):
        tree = os.path.join(self.recipe_folder, "..", "..")
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "shaders/*", "src/*"):
            copy(self, pattern, src=tree, dst=self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("vulkan-headers/[>=1.3.239 <2]", transitive_headers=True)
        if self.options.cpu:
            self.requires("highway/[>=1.0.3 <2]")
        if self.options.runtime:
            self.requires("volk/[>=1.3.239 <2]")

    def validate(self):
        check_min_cppstd(self, 20)
        if self.options.runtime and not self.options.cpu:
            raise ConanInvalidConfiguration("vkattn: the option runtime needs the option cpu: set cpu=True, or runtime=False")

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["VKATTN_SHARED"] = bool(self.options.shared)
        toolchain.cache_variables["VKATTN_BUILD_CPU"] = bool(self.options.cpu)
        toolchain.cache_variables["VKATTN_BUILD_RUNTIME"] = bool(self.options.runtime)
        toolchain.cache_variables["VKATTN_INSTALL"] = True
        for part in ("TOOL", "SAMPLES", "BENCH", "TESTS"):
            toolchain.cache_variables[f"VKATTN_BUILD_{part}"] = False
        if self.options.spirv:
            toolchain.cache_variables["VKATTN_SPIRV_FOLDER"] = str(self.options.spirv)
        if self.options.runtime:
            toolchain.cache_variables["VKATTN_VOLK_DIR"] = self.dependencies["volk"].cpp_info.aggregated_components().includedirs[0]
        toolchain.generate()
        deps = CMakeDeps(self)  # Highway's own names, which vkattn looks for
        deps.set_property("highway", "cmake_file_name", "hwy")
        deps.set_property("highway", "cmake_target_name", "hwy::hwy")
        deps.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        for folder in ("cmake", "pkgconfig"):  # Conan writes its own
            rmdir(self, os.path.join(self.package_folder, "lib", folder))
        rmdir(self, os.path.join(self.package_folder, "share"))

    def package_info(self):
        unix = self.settings.os in ("Linux", "FreeBSD")

        def component(name, requires):
            info = self.cpp_info.components[name]
            info.libs = [f"vkattn_{name}"]
            info.requires = requires
            info.set_property("cmake_target_name", f"vkattn::{name}")
            info.set_property("pkg_config_name", f"vkattn-{name}")
            if self.options.shared:
                info.defines = ["VKATTN_SHARED"]
            if unix:
                info.system_libs = {"cpu": ["m", "pthread"], "runtime": ["dl"]}.get(name, ["m"])

        problem = [] if self.options.shared else ["problem"]
        if problem:
            component("problem", [])
        component("core", problem + ["vulkan-headers::vulkan-headers"])
        if self.options.cpu:
            component("cpu", problem + ["highway::highway"])
        if self.options.runtime:
            component("runtime", ["core", "cpu", "volk::volk"])
