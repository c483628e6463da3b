# The patches of ARCHITECTURE.md apply to this tree, and touch no more files than a local change
# may. SOURCE: the repository. A patch that no longer applies is made again by hand: the page shows
# what a change takes today, not what it took once. The patches are tried with git, or with patch(1)
# where there is no git; the test is skipped only where neither is there.
cmake_minimum_required(VERSION 3.22)
find_program(git git)
find_program(patch_program patch)
if(git)
  # Without a repository around it `git apply` takes paths as they are: the sources may be an
  # archive.
  set(try ${CMAKE_COMMAND} -E env GIT_CEILING_DIRECTORIES=/ ${git} apply --check)
elseif(patch_program)
  set(try ${patch_program} --dry-run --batch --silent --fuzz=0 --strip=1 --input)
else()
  message("skipped: there is neither git nor patch to try the patches with")
  return()
endif()

# check(patch most shaders): the patch touches at most `most` files, and no shader but those that
# `shaders` matches.
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
  execute_process(COMMAND ${try} docs/how_to/${patch}
    WORKING_DIRECTORY ${SOURCE} RESULT_VARIABLE status OUTPUT_VARIABLE why ERROR_VARIABLE why)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${patch} does not apply:\n${why}")
  endif()
  message(STATUS "${patch} applies and touches ${count} files")
endfunction()

check(pair_term.patch 12 "^shaders/attention/pair\\.glsl$")
check(kernel_variant.patch 6 "^shaders/flash/lanes\\.comp$")
