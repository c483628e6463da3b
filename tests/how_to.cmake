# The patches of ARCHITECTURE.md apply to this tree, and touch no more files than a local change
# may. SOURCE: the repository. A patch that no longer applies is made again by hand: the page shows
# what a change takes today, not what it took once.
cmake_minimum_required(VERSION 3.22)
find_program(git git)
if(NOT git)
  message("skipped: no git to try the patches with")
  return()
endif()

# check(patch most): `most` files of the product at most, and of shaders only what `shaders`
# matches.
function(check patch most shaders)
  file(STRINGS ${SOURCE}/docs/how_to/${patch} lines REGEX "^\\+\\+\\+ b/")
  list(LENGTH lines count)
  if(count EQUAL 0 OR count GREATER most)
    message(FATAL_ERROR "${patch} touches ${count} files, expected 1 to ${most}")
  endif()
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^\\+\\+\\+ b/" "" file "${line}")
    if(file MATCHES "\\.(comp|glsl)$" AND NOT file MATCHES "${shaders}")
      message(FATAL_ERROR "${patch} touches the shader ${file}, expected only ${shaders}")
    endif()
  endforeach()
  # Without a repository around it `git apply` takes paths as they are: the sources may be an
  # archive.
  execute_process(COMMAND ${CMAKE_COMMAND} -E env GIT_CEILING_DIRECTORIES=/ ${git} apply --check docs/how_to/${patch}
    WORKING_DIRECTORY ${SOURCE} RESULT_VARIABLE status ERROR_VARIABLE why)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${patch} does not apply:\n${why}")
  endif()
  message(STATUS "${patch} applies and touches ${count} files")
endfunction()

check(pair_term.patch 12 "^shaders/attention/pair\\.glsl$")
check(kernel_variant.patch 6 "^shaders/flash/lanes\\.comp$")
