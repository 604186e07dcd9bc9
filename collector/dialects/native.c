/* JSON texts looked at for a few members, everything else in them passed over.

   The same as reading them in full, and no answer for what is no JSON, is nested deeply, or writes
   names of members with escapes: these are left to the full reading. What is passed over is checked
   as strictly, so that no text is readable here that is not there. `brief.py` is how Python reaches
   this; `native.pyi` gives the types. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__) && !defined(PORTABLE)
#include <emmintrin.h>
#endif

enum { DEPTH_MAX = 64, DIGITS_MAX = 32, NAMES_MAX = 8 };

/* Some of a text. */
typedef struct {
    const char *at;
    const char *end;
} Piece;

/* A value as it is written; of a string without escapes what is between the quotes. */
typedef struct {
    Piece piece; /* nothing, at NULL, where it is absent or null */
    bool is_plain; /* it is such a string */
} Value;

/* --- reading ----------------------------------------------------------------------------------

   Each function takes the place of what it reads and the end of the text, and gives the place behind
   it; NULL where the text is to be read in full. Somewhere behind the end stands a zero, as behind all
   texts and bytes of Python's, which is no part of any JSON: the end is looked at only where several
   bytes are read, and once all is read. A text that lies in the body of a request may be read on into
   what follows there, which is a few bytes away from something that is no JSON either. */

static inline const char *blank(const char *at)
{
    while ((unsigned char)*at <= ' ' && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
        at++;
    return at;
}

/* To the next quote, backslash or control character: by blocks, as strings are most of a text. */
static inline const char *plain(const char *at, const char *end)
{
#if defined(__SSE2__) && !defined(PORTABLE)
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'),
                  control = _mm_set1_epi8(0x1F);
    for (; end - at >= (ptrdiff_t)sizeof quote; at += sizeof quote) {
        __m128i block = _mm_loadu_si128((const __m128i *)at);
        __m128i found = _mm_or_si128(_mm_cmpeq_epi8(block, quote), _mm_cmpeq_epi8(block, backslash));
        found = _mm_or_si128(found, _mm_cmpeq_epi8(_mm_min_epu8(block, control), block));
        int places = _mm_movemask_epi8(found);
        if (places)
            return at + __builtin_ctz((unsigned)places);
    }
#else
#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
    for (uint64_t block; end - at >= (ptrdiff_t)sizeof block; at += sizeof block) {
        memcpy(&block, at, sizeof block);
        uint64_t quote = block ^ EACH('"'), backslash = block ^ EACH('\\');
        uint64_t found = ((quote - EACH(1)) & ~quote) | ((backslash - EACH(1)) & ~backslash)
            | ((block - EACH(0x20)) & ~block);
        if (found & EACH(0x80)) /* one of the eight is such a byte */
            break;
    }
#endif
    while (*at != '"' && *at != '\\' && (unsigned char)*at >= 0x20)
        at++;
    return at;
}

static const char *hexadecimal(const char *at, unsigned *value)
{
    *value = 0;
    for (const char *end = at + 4; at != end; at++) {
        unsigned digit = *at >= '0' && *at <= '9' ? (unsigned)(*at - '0')
            : *at >= 'a' && *at <= 'f'            ? (unsigned)(*at - 'a' + 10)
            : *at >= 'A' && *at <= 'F'            ? (unsigned)(*at - 'A' + 10)
                                                  : 16;
        if (digit == 16)
            return NULL;
        *value = *value << 4 | digit;
    }
    return at;
}

/* What follows a backslash; halves of characters come in pairs. */
static const char *escape(const char *at)
{
    unsigned first, second;
    if (*at != 'u')
        return *at && strchr("\"\\/bfnrt", *at) != NULL ? at + 1 : NULL;
    if ((at = hexadecimal(at + 1, &first)) == NULL || first < 0xD800 || first > 0xDFFF)
        return at;
    if (first >= 0xDC00 || at[0] != '\\' || at[1] != 'u')
        return NULL;
    at = hexadecimal(at + 2, &second);
    return at != NULL && second >= 0xDC00 && second <= 0xDFFF ? at : NULL;
}

/* The rest of a string from its first escape on; gives the place of the last quote. */
static const char *escaped(const char *at, const char *end)
{
    do {
        if (*at != '\\' || (at = escape(at + 1)) == NULL)
            return NULL;
    } while (*(at = plain(at, end)) != '"');
    return at;
}

/* A string, behind its first quote; gives the place of the last one. */
static inline const char *string(const char *at, const char *end, bool *is_plain)
{
    at = plain(at, end);
    *is_plain = *at == '"';
    return *is_plain ? at : escaped(at, end);
}

static const char *digits(const char *at)
{
    if (*at < '0' || *at > '9')
        return NULL;
    while (*at >= '0' && *at <= '9')
        at++;
    return at;
}

/* A number; very long ones are not the same to all readers. */
static const char *number(const char *at)
{
    const char *begin = at;
    if (*at == '-')
        at++;
    if ((at = *at == '0' ? at + 1 : digits(at)) == NULL)
        return NULL;
    if (*at == '.' && (at = digits(at + 1)) == NULL)
        return NULL;
    if (*at == 'e' || *at == 'E') {
        at += at[1] == '-' || at[1] == '+' ? 2 : 1;
        if ((at = digits(at)) == NULL)
            return NULL;
    }
    return at - begin <= DIGITS_MAX ? at : NULL;
}

static const char *word(const char *at, const char *wanted)
{
    while (*wanted)
        if (*at++ != *wanted++)
            return NULL;
    return at;
}

/* Reads a member of an object, from its value on. */
typedef const char *Member(const char *at, const char *end, const Value *name, void *context);

/* An object, from its brace; each of its members is read as is asked. */
static inline const char *object(const char *at, const char *end, Member *member, void *context)
{
    Value name;
    if (*at != '{')
        return NULL;
    at = blank(at + 1);
    if (*at == '}')
        return at + 1;
    for (;;) {
        if (*at != '"')
            return NULL;
        name.piece.at = at + 1;
        if ((at = string(at + 1, end, &name.is_plain)) == NULL)
            return NULL;
        name.piece.end = at;
        at = blank(at + 1);
        if (*at != ':' || (at = member(blank(at + 1), end, &name, context)) == NULL)
            return NULL;
        at = blank(at);
        if (*at == '}')
            return at + 1;
        if (*at != ',')
            return NULL;
        at = blank(at + 1);
    }
}

/* Reads an item of an array. */
typedef const char *Item(const char *at, const char *end, void *context);

/* An array, from its bracket; each of its items is read as is asked. */
static inline const char *array(const char *at, const char *end, Item *item, void *context)
{
    if (*at != '[')
        return NULL;
    at = blank(at + 1);
    if (*at == ']')
        return at + 1;
    while ((at = item(at, end, context)) != NULL) {
        at = blank(at);
        if (*at == ']')
            return at + 1;
        if (*at != ',')
            return NULL;
        at = blank(at + 1);
    }
    return NULL;
}

static const char *other(const char *at, const char *end, int depth);

/* Any value, so deep in the text; a string is plain, or not. */
static inline const char *value(const char *at, const char *end, int depth, bool *is_plain)
{
    if (*at != '"')
        return other(at, end, depth);
    at = string(at + 1, end, is_plain);
    return at != NULL ? at + 1 : NULL;
}

/* Passes over any value. */
static inline const char *pass(const char *at, const char *end, void *depth)
{
    bool is_plain;
    return value(at, end, *(int *)depth, &is_plain);
}

static inline const char *pass_member(
    const char *at, const char *end, const Value *Py_UNUSED(name), void *depth)
{
    return pass(at, end, depth);
}

/* A value that is no string. */
static const char *other(const char *at, const char *end, int depth)
{
    switch (*at) {
    case '{':
        return depth++ < DEPTH_MAX ? object(at, end, pass_member, &depth) : NULL;
    case '[':
        return depth++ < DEPTH_MAX ? array(at, end, pass, &depth) : NULL;
    case 't':
        return word(at, "true");
    case 'f':
        return word(at, "false");
    case 'n':
        return word(at, "null");
    default:
        return number(at);
    }
}

/* --- members ---------------------------------------------------------------------------------- */

/* Members that are asked for by their names, and what an object has of them. */
typedef struct {
    Py_ssize_t count;
    Piece names[NAMES_MAX];
    Value found[NAMES_MAX];
} Asked;

static inline bool is_name(const Value *name, const Piece *wanted)
{
    size_t size = (size_t)(wanted->end - wanted->at);
    return (size_t)(name->piece.end - name->piece.at) == size
        && memcmp(name->piece.at, wanted->at, size) == 0;
}

/* Of equal names the last one counts. */
static inline const char *note(const char *at, const char *end, const Value *name, void *context)
{
    Asked *asked = context;
    bool is_plain = false;
    const char *behind = value(at, end, 1, &is_plain);
    if (!name->is_plain || behind == NULL)
        return NULL;
    for (Py_ssize_t each = 0; each < asked->count; each++)
        if (is_name(name, &asked->names[each]))
            asked->found[each] = *at == 'n' ? (Value){{NULL, NULL}, false}
                : is_plain                  ? (Value){{at + 1, behind - 1}, true}
                                            : (Value){{at, behind}, false};
    return behind;
}

/* An object: what it has of the members. */
static const char *members(const char *at, const char *end, Asked *asked)
{
    for (Py_ssize_t each = 0; each < asked->count; each++)
        asked->found[each] = (Value){{NULL, NULL}, false};
    return object(at, end, note, asked);
}

/* --- Python ----------------------------------------------------------------------------------- */

static PyObject *object_of(const Value *found)
{
    const char *at = found->piece.at;
    if (at == NULL)
        return Py_NewRef(Py_None);
    Py_ssize_t size = found->piece.end - at;
    return found->is_plain ? PyUnicode_DecodeUTF8(at, size, NULL)
                           : PyBytes_FromStringAndSize(at, size);
}

static PyObject *tuple_of(const Value *found, Py_ssize_t count)
{
    PyObject *made = PyTuple_New(count);
    for (Py_ssize_t each = 0; made != NULL && each < count; each++) {
        PyObject *one = object_of(&found[each]);
        if (one == NULL)
            Py_CLEAR(made);
        else
            PyTuple_SET_ITEM(made, each, one);
    }
    return made;
}

/* The text of a span's value, where the reader of requests has it (decode/native.c); NULL without one. */
typedef int TextIn(PyObject *const *values_and_index, const char **at, const char **end);
static TextIn *text_in;

static bool is_ascii(Piece text)
{
    const char *at = text.at;
#if defined(__SSE2__) && !defined(PORTABLE)
    for (__m128i block; text.end - at >= (ptrdiff_t)sizeof block; at += sizeof block) {
        block = _mm_loadu_si128((const __m128i *)at);
        if (_mm_movemask_epi8(block))
            return false;
    }
#endif
    for (; at < text.end; at++)
        if ((unsigned char)*at > 0x7F)
            return false;
    return true;
}

/* The same of texts that are read where they lie: all others are first made texts of Python's. */
static bool text_where(PyObject *const *given, Piece *text)
{
    return text_in != NULL && text_in(given, &text->at, &text->end) && is_ascii(*text);
}

/* The characters of a text, or of bytes that are one. */
static bool text_of(PyObject *given, Piece *text)
{
    Py_ssize_t size;
    if (PyUnicode_Check(given)) {
        text->at = PyUnicode_AsUTF8AndSize(given, &size);
        if (text->at == NULL)
            return false;
    } else if (PyBytes_Check(given)) {
        text->at = PyBytes_AS_STRING(given);
        size = PyBytes_GET_SIZE(given);
    } else {
        PyErr_SetString(PyExc_TypeError, "expected str or bytes");
        return false;
    }
    text->end = text->at + size;
    return true;
}

static bool asked_of(PyObject *const *names, Py_ssize_t count, Asked *asked)
{
    if (count > NAMES_MAX) {
        PyErr_SetString(PyExc_TypeError, "too many names");
        return false;
    }
    asked->count = count;
    for (Py_ssize_t each = 0; each < count; each++)
        if (!text_of(names[each], &asked->names[each]))
            return false;
    return true;
}

static PyObject *members_of(Piece text, PyObject *const *names, Py_ssize_t count)
{
    Asked asked;
    if (!asked_of(names, count, &asked))
        return NULL;
    const char *at = members(blank(text.at), text.end, &asked);
    if (at == NULL || blank(at) != text.end)
        Py_RETURN_NONE;
    return tuple_of(asked.found, asked.count);
}

static PyObject *native_members(PyObject *Py_UNUSED(self), PyObject *const *given, Py_ssize_t count)
{
    Piece text;
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "expected a text and names");
        return NULL;
    }
    return text_of(given[0], &text) ? members_of(text, given + 1, count - 1) : NULL;
}

static PyObject *native_members_at(
    PyObject *Py_UNUSED(self), PyObject *const *given, Py_ssize_t count)
{
    Piece text;
    if (count < 2) {
        PyErr_SetString(PyExc_TypeError, "expected values, an index and names");
        return NULL;
    }
    if (!text_where(given, &text))
        Py_RETURN_NONE;
    return members_of(text, given + 2, count - 2);
}

/* Where the objects are that members are asked of, what the first of these must be, and what was
   found. */
typedef struct {
    Piece name;
    bool is_found;
    Asked asked;
    Piece wanted;
    PyObject *list;
} Within;

static const char *add(const char *at, const char *end, void *context)
{
    Within *within = context;
    const Value *found = within->asked.found;
    if ((at = members(at, end, &within->asked)) == NULL)
        return NULL;
    if (!found->is_plain) /* what it is may be written with escapes */
        return found->piece.at == NULL || *found->piece.at != '"' ? at : NULL;
    if (!is_name(found, &within->wanted))
        return at;
    PyObject *made = tuple_of(found + 1, within->asked.count - 1);
    if (made == NULL)
        return NULL;
    int failed = PyList_Append(within->list, made);
    Py_DECREF(made);
    return failed ? NULL : at;
}

/* A second list of this name would count in place of the first. */
static const char *add_all(const char *at, const char *end, const Value *name, void *context)
{
    Within *within = context;
    bool is_plain;
    if (!name->is_plain)
        return NULL;
    if (!is_name(name, &within->name))
        return value(at, end, 1, &is_plain);
    if (within->is_found)
        return NULL;
    within->is_found = true;
    return array(at, end, add, within);
}

static const char *add_within(const char *at, const char *end, void *context)
{
    ((Within *)context)->is_found = false;
    return object(at, end, add_all, context);
}

/* Of a name, what is wanted, and names. */
static PyObject *listed_of(Piece text, PyObject *const *given, Py_ssize_t count)
{
    Within within;
    if (!text_of(given[0], &within.name) || !text_of(given[1], &within.wanted)
        || !asked_of(given + 2, count - 2, &within.asked)
        || (within.list = PyList_New(0)) == NULL)
        return NULL;
    const char *at = array(blank(text.at), text.end, add_within, &within);
    if (at != NULL && blank(at) == text.end)
        return within.list;
    Py_DECREF(within.list);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *native_listed(PyObject *Py_UNUSED(self), PyObject *const *given, Py_ssize_t count)
{
    Piece text;
    if (count < 4) {
        PyErr_SetString(PyExc_TypeError, "expected a text, a name, what is wanted, and names");
        return NULL;
    }
    return text_of(given[0], &text) ? listed_of(text, given + 1, count - 1) : NULL;
}

static PyObject *native_listed_at(
    PyObject *Py_UNUSED(self), PyObject *const *given, Py_ssize_t count)
{
    Piece text;
    if (count < 5) {
        PyErr_SetString(
            PyExc_TypeError, "expected values, an index, a name, what is wanted, and names");
        return NULL;
    }
    if (!text_where(given, &text))
        Py_RETURN_NONE;
    return listed_of(text, given + 2, count - 2);
}

/* Whether a text has another one in it, of two bytes or more: looked for by its first and its last. */
static bool holds(Piece text, Piece sign)
{
    const char *at = text.at;
    ptrdiff_t size = sign.end - sign.at;
#if defined(__SSE2__) && !defined(PORTABLE)
    const __m128i first = _mm_set1_epi8(sign.at[0]), last = _mm_set1_epi8(sign.at[size - 1]);
    for (; text.end - at >= (ptrdiff_t)sizeof first + size - 1; at += sizeof first) {
        __m128i begins = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)at), first);
        __m128i ends = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(at + size - 1)), last);
        unsigned places = (unsigned)_mm_movemask_epi8(_mm_and_si128(begins, ends));
        for (; places; places &= places - 1)
            if (memcmp(at + __builtin_ctz(places), sign.at, (size_t)size) == 0)
                return true;
    }
#endif
    for (; text.end - at >= size; at++)
        if (*at == *sign.at && memcmp(at, sign.at, (size_t)size) == 0)
            return true;
    return false;
}

static PyObject *native_lacks_at(
    PyObject *Py_UNUSED(self), PyObject *const *given, Py_ssize_t count)
{
    Piece text, sign;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "expected values, an index and a sign");
        return NULL;
    }
    if (!text_of(given[2], &sign))
        return NULL;
    if (sign.end - sign.at < 2 || text_in == NULL || !text_in(given, &text.at, &text.end))
        Py_RETURN_FALSE;
    return PyBool_FromLong(!holds(text, sign));
}

static PyMethodDef methods[] = {
    {"members", (PyCFunction)(void (*)(void))native_members, METH_FASTCALL,
     "What an object in JSON has of some members; None where it is to be read in full."},
    {"listed", (PyCFunction)(void (*)(void))native_listed, METH_FASTCALL,
     "The same of the wanted objects in lists that the objects of a list have; None likewise."},
    {"members_at", (PyCFunction)(void (*)(void))native_members_at, METH_FASTCALL,
     "`members` of the text of a span's value, by its index; None also where it has none."},
    {"listed_at", (PyCFunction)(void (*)(void))native_listed_at, METH_FASTCALL,
     "`listed` likewise."},
    {"lacks_at", (PyCFunction)(void (*)(void))native_lacks_at, METH_FASTCALL,
     "Whether a span's value, by its index, is a text without this in it."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "collector.dialects.native",
    .m_doc = "JSON texts looked at for a few members.",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit_native(void)
{
    text_in = (TextIn *)PyCapsule_Import("collector.decode.native._text_in", 0);
    if (text_in == NULL)
        PyErr_Clear(); /* it was not built */
    return PyModule_Create(&definition);
}
