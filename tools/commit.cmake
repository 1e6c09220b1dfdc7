# Writes OUTPUT, a header with the commit of SOURCE_DIR, and leaves it alone while the commit is the same.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git --no-optional-locks describe --always --dirty --abbrev=12
                WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define WP_COMMIT \"@commit@\"\n" @ONLY)
