// SPDX-License-Identifier: Apache-2.0
#include "python.h"

#include <dlfcn.h>

#include <initializer_list>
#include <type_traits>

namespace ttmem {

Python python;

namespace {

bool find(Python& p) {
    auto get = [](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(RTLD_DEFAULT, name));
        return function != nullptr;
    };
    get(p.frame_position, "PyFrame_GetLasti");
    bool errors = get(p.error_type, "PyErr_Occurred") && get(p.take_error, "PyErr_Fetch") &&
                  get(p.set_error, "PyErr_Restore") && get(p.runtime_error, "PyExc_RuntimeError");
    p.error_type = errors ? p.error_type : nullptr;
    p.tuple_type = dlsym(RTLD_DEFAULT, "PyTuple_Type");
    p.list_type = dlsym(RTLD_DEFAULT, "PyList_Type");
    int plain = 0;
    for (const char* name : {"PyLong_Type", "PyBool_Type", "PyFloat_Type", "PyUnicode_Type"}) {
        p.plain_types[plain++] = dlsym(RTLD_DEFAULT, name);
    }
    p.none = dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
    return get(p.modules, "PyImport_GetModuleDict") && get(p.item, "PyDict_GetItemString") &&
           get(p.attribute, "PyObject_GetAttrString") && get(p.utf8, "PyUnicode_AsUTF8") &&
           get(p.get, "PyObject_GetAttr") && get(p.intern, "PyUnicode_InternFromString") &&
           get(p.type, "PyObject_Type") && get(p.as_text, "PyObject_Str") &&
           get(p.call_method, "PyObject_CallMethodObjArgs") && get(p.as_number, "PyLong_AsUnsignedLongLong") &&
           get(p.slot, "PyType_GetSlot") && get(p.clear_error, "PyErr_Clear") && get(p.release, "Py_DecRef") &&
           get(p.size, "PySequence_Size") && get(p.at, "PySequence_GetItem") &&
           (get(p.now_state, "PyThreadState_GetUnchecked") || get(p.now_state, "_PyThreadState_UncheckedGet")) &&
           get(p.own_state, "PyGILState_GetThisThreadState") && get(p.top_frame, "PyThreadState_GetFrame") &&
           get(p.frame_back, "PyFrame_GetBack") && get(p.frame_code, "PyFrame_GetCode") &&
           get(p.frame_line, "PyFrame_GetLineNumber") && get(p.collect_off, "PyGC_Disable") &&
           get(p.collect_on, "PyGC_Enable") && get(p.save_thread, "PyEval_SaveThread") &&
           get(p.restore_thread, "PyEval_RestoreThread");
}

}  // namespace

bool Python::there() noexcept {
    static bool found = find(*this);
    return found;
}

}  // namespace ttmem
