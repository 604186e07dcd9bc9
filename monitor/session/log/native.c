/* Rows of a log written where they stand, without an object for what is in them; parents of its steps
   looked through where they stand; and call ids put behind others in one go.

   The same as `_ROW.pack` and `may_name` of rows.py, which says what a row and a context are, and as
   `packed` of call_ids.py; `native.pyi` gives the types. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

enum { WIDTH = 32, TIMES = 8, SPAN = 16, META = 24, TOOL = 28, TOKEN = 30, ID_SIZE = 8 };
enum { CONTEXT = 24, PARENT = 16 };
enum { CALL_ID_MAX = 255 };

/* Little-endian, whatever the machine; compilers make one move of it where it is that. */
static inline void put_16(uint8_t *at, uint64_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static inline void put_32(uint8_t *at, uint64_t value)
{
    put_16(at, value);
    put_16(at + 2, value >> 16);
}

static inline void put_64(uint8_t *at, uint64_t value)
{
    put_32(at, value);
    put_32(at + 4, value >> 32);
}

/* A number of at most so many bits; false with an exception for what is none. */
static inline int number(PyObject *given, int bits, uint64_t *value)
{
#if ULONG_MAX == UINT64_MAX /* in Python this is the faster one */
    *value = PyLong_AsUnsignedLong(given);
#else
    *value = PyLong_AsUnsignedLongLong(given);
#endif
    if (*value == UINT64_MAX && PyErr_Occurred())
        return 0;
    if (bits < 64 && *value >> bits) {
        PyErr_SetString(PyExc_OverflowError, "a number is too large for its place in a row");
        return 0;
    }
    return 1;
}

static PyObject *append(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t count)
{
    uint64_t at, times, meta, tool, token;
    if (count != 7 || !PyByteArray_CheckExact(given[0]) || !PyBytes_CheckExact(given[3])) {
        PyErr_SetString(PyExc_TypeError, "expected a bytearray and what a row holds");
        return NULL;
    }
    if (!number(given[1], 64, &at) || !number(given[2], 64, &times) || !number(given[4], 32, &meta)
        || !number(given[5], 16, &tool) || !number(given[6], 16, &token))
        return NULL;
    Py_ssize_t size = PyByteArray_GET_SIZE(given[0]), id_size = PyBytes_GET_SIZE(given[3]);
    if (PyByteArray_Resize(given[0], size + WIDTH) < 0)
        return NULL;
    uint8_t *row = (uint8_t *)PyByteArray_AS_STRING(given[0]) + size;
    put_64(row, at);
    put_64(row + TIMES, times);
    memset(row + SPAN, 0, ID_SIZE);
    memcpy(row + SPAN, PyBytes_AS_STRING(given[3]), (size_t)(id_size < ID_SIZE ? id_size : ID_SIZE));
    put_32(row + META, meta);
    put_16(row + TOOL, tool);
    put_16(row + TOKEN, token);
    Py_RETURN_NONE;
}

static PyObject *names(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t count)
{
    if (count != 2 || !PyBytes_CheckExact(given[0]) || !PyBytes_CheckExact(given[1])
        || PyBytes_GET_SIZE(given[1]) != ID_SIZE) {
        PyErr_SetString(PyExc_TypeError, "expected contexts and a span id of eight bytes");
        return NULL;
    }
    const char *contexts = PyBytes_AS_STRING(given[0]);
    Py_ssize_t size = PyBytes_GET_SIZE(given[0]);
    uint64_t id, parent;
    memcpy(&id, PyBytes_AS_STRING(given[1]), ID_SIZE);
    for (Py_ssize_t end = CONTEXT; end <= size; end += CONTEXT) {
        memcpy(&parent, contexts + end - CONTEXT + PARENT, ID_SIZE);
        if (parent == id)
            Py_RETURN_TRUE;
    }
    Py_RETURN_FALSE;
}

static PyObject *add_id(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t count)
{
    if (count != 3 || !PyBytes_CheckExact(given[0]) || !PyBytes_CheckExact(given[1])
        || !PyUnicode_CheckExact(given[2])) {
        PyErr_SetString(PyExc_TypeError, "expected ids, a span id, and a call id");
        return NULL;
    }
    if (!PyUnicode_IS_COMPACT_ASCII(given[2]) || PyBytes_GET_SIZE(given[1]) != ID_SIZE)
        Py_RETURN_NONE;
    Py_ssize_t known = PyBytes_GET_SIZE(given[0]), size = PyUnicode_GET_LENGTH(given[2]);
    if (size == 0 || size > CALL_ID_MAX)
        Py_RETURN_NONE;
    PyObject *ids = PyBytes_FromStringAndSize(NULL, known + ID_SIZE + 1 + size);
    if (ids == NULL)
        return NULL;
    char *at = PyBytes_AS_STRING(ids);
    memcpy(at, PyBytes_AS_STRING(given[0]), (size_t)known);
    at += known;
    memcpy(at, PyBytes_AS_STRING(given[1]), ID_SIZE);
    at[ID_SIZE] = (char)size;
    memcpy(at + ID_SIZE + 1, PyUnicode_1BYTE_DATA(given[2]), (size_t)size);
    return ids;
}

static PyMethodDef methods[] = {
    {"append", (PyCFunction)(void (*)(void))append, METH_FASTCALL, "Adds a row behind all others."},
    {"add_id", (PyCFunction)(void (*)(void))add_id, METH_FASTCALL, "Adds a call id behind others."},
    {"names", (PyCFunction)(void (*)(void))names, METH_FASTCALL, "Whether an id is a parent's."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "monitor.session.log.native",
    .m_doc = "Rows of a log.",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit_native(void) { return PyModule_Create(&definition); }
