# The libraries for wheels, which load on any Linux since glibc 2.17; included by CMakeLists.txt.
#
# They have the same objects as the others, linked against stubs of old libraries, which
# tools/setup/old_libraries.py writes to GRAPH_OPT_OLD_LIBRARIES: the C library's, and a C++ library with the
# symbols of GCC 4.8's alone. What is newer comes from the compiler's own libstdc++.a, hidden in the library;
# streams, exceptions, locales and the empty std::string of the old ABI remain those of the process, as
# TensorFlow's are.
set(GRAPH_OPT_OLD_LIBRARIES ${CMAKE_CURRENT_SOURCE_DIR}/../build/old_libraries
    CACHE PATH "Stubs of old libraries, to link portable ones against")
set(exported_names ${CMAKE_CURRENT_SOURCE_DIR}/portable/exported_names.map)

# Adds the target `library`_portable, which is written to a folder `room`. Archives that it needs follow.
function(add_portable library room)
  set(portable ${library}_portable)
  add_library(${portable} SHARED EXCLUDE_FROM_ALL portable/newer_functions.cc $<TARGET_OBJECTS:${library}>)
  set_target_properties(
    ${portable}
    PROPERTIES CXX_STANDARD 14
               CXX_EXTENSIONS OFF
               OUTPUT_NAME ${library}
               LIBRARY_OUTPUT_DIRECTORY ${OUTPUT_DIRECTORY}/portable/${room}
               LINK_DEPENDS ${exported_names})
  target_include_directories(${portable} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  # The stubs come first, so that libstdc++.a only fills their gaps; and it before TensorFlow, which may
  # have copies of such functions, too.
  target_link_libraries(
    ${portable}
    PRIVATE ${ARGN} -L${GRAPH_OPT_OLD_LIBRARIES} -Wl,--as-needed -Wl,--version-script=${exported_names} -Wl,-z,defs
            -lstdc++ -l:libstdc++.a)
endfunction()

add_portable(graph_opt_network launch)
add_portable(graph_opt_ops ops)
add_portable(graph_opt_serving ops graph_opt_objects)
foreach(library graph_opt_ops graph_opt_serving)
  get_target_property(objects ${library} SOURCES)
  list(FILTER objects INCLUDE REGEX "TARGET_OBJECTS")
  target_sources(${library}_portable PRIVATE ${objects})
  get_target_property(libraries ${library} LINK_LIBRARIES)
  target_link_libraries(${library}_portable PRIVATE ${libraries})
endforeach()
# Where they are one with the C library, CMake knows of none.
foreach(portable graph_opt_network_portable graph_opt_ops_portable graph_opt_serving_portable)
  target_link_libraries(${portable} PRIVATE -lpthread -ldl -lrt -lm)
endforeach()
