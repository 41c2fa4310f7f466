# Tests of the installed library: an install into a scratch prefix, which is then moved (it must not know where it was
# put), and the replays of tests/c and tests/cpp built against it as another project would, once by find_package and
# once by pkg-config.
set(scratch ${PROJECT_BINARY_DIR}/installed)
set(moved ${scratch}/moved/prefix)

add_test(NAME installed.install COMMAND ${CMAKE_COMMAND}
         -DBUILD=${PROJECT_BINARY_DIR} -DSCRATCH=${scratch} -DMOVED=${moved} -P ${PROJECT_SOURCE_DIR}/cmake/install-and-move.cmake)
set_tests_properties(installed.install PROPERTIES FIXTURES_SETUP installed)

add_test(NAME installed.find_package COMMAND ${CMAKE_CTEST_COMMAND}
         --build-and-test ${PROJECT_SOURCE_DIR}/cmake/consumer ${scratch}/consumer
         --build-generator ${CMAKE_GENERATOR} --build-noclean
         --build-options -DCMAKE_PREFIX_PATH=${moved} -DGOLDENS=${PROJECT_SOURCE_DIR}/tests/goldens
                         -DVERSION_WANTED=${PROJECT_VERSION}
                         -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
         --test-command ${CMAKE_CTEST_COMMAND} --output-on-failure)
set_tests_properties(installed.find_package PROPERTIES FIXTURES_REQUIRED installed)

find_program(HAWKEYE_PKG_CONFIG NAMES pkgconf pkg-config DOC "pkg-config, for the test of hawkeye.pc")
if(HAWKEYE_PKG_CONFIG)
    add_test(NAME installed.pkg_config COMMAND sh ${PROJECT_SOURCE_DIR}/cmake/consumer/pkg-config.sh
             ${moved}/${CMAKE_INSTALL_LIBDIR} ${PROJECT_SOURCE_DIR}/tests ${scratch}/pkg-config ${PROJECT_VERSION})
    set_tests_properties(installed.pkg_config PROPERTIES FIXTURES_REQUIRED installed
        ENVIRONMENT "CC=${CMAKE_C_COMPILER};CXX=${CMAKE_CXX_COMPILER};PKG_CONFIG=${HAWKEYE_PKG_CONFIG}")
else()
    message(STATUS "pkg-config was not found: hawkeye.pc is not tested")
endif()
