/* OTLP/protobuf read byte by byte, where it is written as every encoder writes it.

   The same as `otlp_proto.decode_any` for such requests, and no answer for all others: fields of
   another wire type, groups, lengths that do not fit, attributes in odd order, and spans with any
   fault are left to the protobuf runtime, which knows what they mean. Nothing is decided here that
   it would decide otherwise, and nothing is read outside of the body.

   No object is made but what a span keeps: an attribute is two offsets into the body until somebody
   asks for it. `scan.py` is how Python reaches this; `native.pyi` gives the types. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tags: a field's number and wire type, as one byte. Within a message only those that it has. */
enum { TAG_RESOURCE_SPANS = 0x0A };
enum { TAG_RESOURCE = 0x0A, TAG_SCOPE_SPANS = 0x12 };
enum { TAG_SCOPE = 0x0A, TAG_SPANS = 0x12, TAG_SCHEMA_URL = 0x1A };
enum {
    TAG_TRACE_ID = 0x0A, TAG_SPAN_ID = 0x12, TAG_TRACE_STATE = 0x1A, TAG_PARENT = 0x22,
    TAG_NAME = 0x2A, TAG_KIND = 0x30, TAG_START = 0x39, TAG_END = 0x41, TAG_ATTRIBUTE = 0x4A,
    TAG_DROPPED = 0x50, TAG_EVENT = 0x5A, TAG_DROPPED_EVENTS = 0x60, TAG_LINK = 0x6A,
    TAG_DROPPED_LINKS = 0x70, TAG_STATUS = 0x7A, TAG_FLAGS = 0x85 /* and a second byte, 1 */
};
enum { TAG_KEY = 0x0A, TAG_VALUE = 0x12, TAG_STRING = 0x0A };
enum { TAG_MESSAGE = 0x12, TAG_CODE = 0x18 };
enum {
    TAG_EVENT_TIME = 0x09, TAG_EVENT_NAME = 0x12, TAG_EVENT_ATTRIBUTE = 0x1A,
    TAG_EVENT_DROPPED = 0x20
};

enum { TRACE_ID_SIZE = 16, SPAN_ID_SIZE = 8, VARINT_BITS_MAX = 35 };

static const uint8_t ZEROS[TRACE_ID_SIZE];

/* A piece of the body: what is still to be read of a message, or a field's content. */
typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Piece;

/* --- reading: false where the runtime has to read it ------------------------------------------ */

static inline size_t size_of(Piece piece) { return (size_t)(piece.end - piece.at); }

/* A number of at most 35 bits; longer varints are negative numbers, or oddly written. */
static inline bool varint(Piece *from, uint64_t *value)
{
    uint64_t found = 0;
    for (int shift = 0; shift < VARINT_BITS_MAX; shift += 7) {
        if (from->at == from->end)
            return false;
        uint8_t byte = *from->at++;
        found |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = found;
            return true;
        }
    }
    return false;
}

/* A varint that is no negative int32. */
static inline bool small(Piece *from, long *value)
{
    uint64_t found;
    if (!varint(from, &found) || found > INT32_MAX)
        return false;
    *value = (long)found;
    return true;
}

/* The content of a length-delimited field whose tag was just read. */
static inline bool block(Piece *from, Piece *content)
{
    uint64_t size;
    if (!varint(from, &size) || size > size_of(*from))
        return false;
    content->at = from->at;
    content->end = from->at += size;
    return true;
}

/* Little-endian. */
static inline bool fixed(Piece *from, int size, uint64_t *value)
{
    if (size_of(*from) < (size_t)size)
        return false;
    uint64_t found = 0;
    for (int byte = size; byte--;)
        found = found << 8 | from->at[byte];
    from->at += size;
    *value = found;
    return true;
}

/* Eight bytes, below 2^63. */
static inline bool moment(Piece *from, uint64_t *value)
{
    return fixed(from, 8, value) && *value <= INT64_MAX;
}

static bool is_event(Piece event)
{
    while (event.at < event.end) {
        uint8_t tag = *event.at++;
        Piece content;
        uint64_t number;
        if (tag == TAG_EVENT_TIME ? !fixed(&event, 8, &number)
            : tag == TAG_EVENT_NAME || tag == TAG_EVENT_ATTRIBUTE ? !block(&event, &content)
            : tag == TAG_EVENT_DROPPED ? !varint(&event, &number)
                                       : true)
            return false;
    }
    return true;
}

/* The code of a Status message; as it was where it has none. */
static bool status_code(Piece status, long *code)
{
    while (status.at < status.end) {
        uint8_t tag = *status.at++;
        Piece content;
        if (tag == TAG_CODE ? !small(&status, code)
            : tag == TAG_MESSAGE ? !block(&status, &content)
                                 : true)
            return false;
    }
    return true;
}

/* The key, with its length, of a KeyValue that is its key, then its value, and nothing else. */
static inline bool key_of(Piece pair, Piece *key)
{
    Piece content;
    if (pair.at == pair.end || *pair.at++ != TAG_KEY)
        return false;
    key->at = pair.at;
    if (!block(&pair, &content))
        return false;
    key->end = pair.at;
    if (pair.at == pair.end)
        return true;
    return *pair.at++ == TAG_VALUE && block(&pair, &content) && pair.at == pair.end;
}

/* The text of a KeyValue that is a key and a string, and nothing else. */
static bool text_of(Piece pair, Piece *text)
{
    Piece content;
    if (pair.at == pair.end || *pair.at++ != TAG_KEY || !block(&pair, &content))
        return false;
    if (pair.at == pair.end || *pair.at++ != TAG_VALUE || !block(&pair, &content))
        return false;
    if (pair.at != pair.end || content.at == content.end || *content.at++ != TAG_STRING)
        return false;
    return block(&content, text) && content.at == content.end;
}

/* --- values: parts of the body, cut out when somebody asks ------------------------------------- */

typedef struct {
    PyObject_VAR_HEAD
    PyObject *body;
    struct {
        uint32_t from;
        uint32_t to;
    } parts[1];
} Values;

static PyTypeObject ValuesType;

static void values_dealloc(Values *self)
{
    Py_DECREF(self->body);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static Py_ssize_t values_length(Values *self) { return Py_SIZE(self); }

static PyObject *values_item(Values *self, Py_ssize_t index)
{
    if (index < 0 || index >= Py_SIZE(self)) {
        PyErr_SetString(PyExc_IndexError, "no such value");
        return NULL;
    }
    uint32_t from = self->parts[index].from, to = self->parts[index].to;
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(self->body) + from, to - from);
}

static PySequenceMethods values_methods = {
    .sq_length = (lenfunc)values_length,
    .sq_item = (ssizeargfunc)values_item,
};

static PyTypeObject ValuesType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "collector.decode.native.Values",
    .tp_basicsize = offsetof(Values, parts),
    .tp_itemsize = sizeof(((Values *)0)->parts[0]),
    .tp_dealloc = (destructor)values_dealloc,
    .tp_as_sequence = &values_methods,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_SEQUENCE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

/* Parts that are noted one by one; false where there is no room, and no exception set. */
typedef struct {
    Py_ssize_t count;
    Py_ssize_t room;
    Piece *parts;
} Parts;

static bool note(Parts *parts, Piece piece)
{
    if (parts->count == parts->room) {
        Py_ssize_t room = parts->room ? parts->room * 2 : 64;
        Piece *more = PyMem_Realloc(parts->parts, (size_t)room * sizeof(Piece));
        if (more == NULL)
            return false;
        parts->parts = more;
        parts->room = room;
    }
    parts->parts[parts->count++] = piece;
    return true;
}

static PyObject *values_of(Parts *parts, PyObject *body)
{
    Values *values = PyObject_NewVar(Values, &ValuesType, parts->count);
    if (values == NULL)
        return NULL;
    const uint8_t *begin = (const uint8_t *)PyBytes_AS_STRING(body);
    for (Py_ssize_t each = 0; each < parts->count; each++) {
        values->parts[each].from = (uint32_t)(parts->parts[each].at - begin);
        values->parts[each].to = (uint32_t)(parts->parts[each].end - begin);
    }
    values->body = Py_NewRef(body);
    return (PyObject *)values;
}

/* --- a reader: what Python decides, asked once for what recurs ---------------------------------- */

enum {
    SHAPE,    /* attribute keys on the wire, each with its length -> a shape, or None */
    RESOURCE, /* (Resource message, codec) -> the resource */
    SCOPE,    /* InstrumentationScope message -> its name */
    SAMPLED,  /* trace state -> whether it marks sampling */
    SPAN,     /* makes a span of its fields */
    UNUSUAL,  /* the exception that says: the runtime has to read it */
    ASKED
};

/* The shapes that were seen last, by their keys: a few dozen recur in every request. */
enum { SHAPES = 512, SHAPE_BYTES_MAX = 4096 };

typedef struct {
    PyObject *raw; /* NULL where there is none */
    PyObject *shape;
} Known;

typedef struct {
    PyObject_HEAD
    PyObject *asked[ASKED];
    Py_ssize_t name_max;
    Py_ssize_t attributes_max;
    Known shapes[SHAPES];
} Reader;

/* What is being read. */
typedef struct {
    Reader *reader;
    PyObject *body;
    PyObject *codec;
    PyObject *spans;
    PyObject *resource;
    PyObject *scope;
    Parts attributes;
    Parts keys;
    Parts events;
} Reading;

/* Everything below gives NULL or false with an exception set: `unusual`, or whatever Python raised. */
static PyObject *unusual(Reading *reading)
{
    PyErr_SetNone(reading->reader->asked[UNUSUAL]);
    return NULL;
}

static PyObject *bytes_of(Piece piece)
{
    return PyBytes_FromStringAndSize((const char *)piece.at, piece.end - piece.at);
}

/* The keys of the span, each behind its length. */
static PyObject *raw_keys(Reading *reading)
{
    Py_ssize_t size = 0;
    for (Py_ssize_t each = 0; each < reading->keys.count; each++)
        size += (Py_ssize_t)size_of(reading->keys.parts[each]);
    PyObject *raw = PyBytes_FromStringAndSize(NULL, size);
    if (raw == NULL)
        return NULL;
    char *to = PyBytes_AS_STRING(raw);
    for (Py_ssize_t each = 0; each < reading->keys.count; each++) {
        Piece key = reading->keys.parts[each];
        memcpy(to, key.at, size_of(key));
        to += size_of(key);
    }
    return raw;
}

/* Where a shape is kept. Keys that fall together push each other out, and are asked for again. */
static Known *place_of(Reader *reader, PyObject *raw)
{
    uint64_t hash = (uint64_t)PyBytes_GET_SIZE(raw), word;
    const char *at = PyBytes_AS_STRING(raw), *end = at + PyBytes_GET_SIZE(raw);
    for (; end - at >= (Py_ssize_t)sizeof(word); at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
    }
    return &reader->shapes[hash % SHAPES];
}

static bool is_known(Known *known, PyObject *raw)
{
    return known->raw != NULL && PyBytes_GET_SIZE(known->raw) == PyBytes_GET_SIZE(raw)
        && !memcmp(PyBytes_AS_STRING(known->raw), PyBytes_AS_STRING(raw),
                   (size_t)PyBytes_GET_SIZE(raw));
}

static PyObject *shape_of(Reading *reading)
{
    PyObject *raw = raw_keys(reading);
    if (raw == NULL)
        return NULL;
    Known *known = place_of(reading->reader, raw);
    if (is_known(known, raw)) {
        Py_DECREF(raw);
        return Py_NewRef(known->shape);
    }
    PyObject *shape = PyObject_CallOneArg(reading->reader->asked[SHAPE], raw);
    if (shape == Py_None) {
        Py_DECREF(shape);
        shape = unusual(reading);
    } else if (shape != NULL && PyBytes_GET_SIZE(raw) <= SHAPE_BYTES_MAX) {
        Py_XSETREF(known->raw, Py_NewRef(raw));
        Py_XSETREF(known->shape, Py_NewRef(shape));
    }
    Py_DECREF(raw);
    return shape;
}

/* The fields of a Span message. Of one that comes twice the last counts, as the runtime has it. */
typedef struct {
    Piece trace_id, span_id, parent, name, state;
    uint64_t start, end, flags;
    long kind, dropped, status;
} Fields;

static bool read_attribute(Reading *reading, Piece *span)
{
    Piece pair, key;
    return reading->keys.count < reading->reader->attributes_max && block(span, &pair)
        && key_of(pair, &key) && note(&reading->attributes, pair) && note(&reading->keys, key);
}

static bool read_event(Reading *reading, Piece *span)
{
    Piece event;
    return block(span, &event) && is_event(event) && note(&reading->events, event);
}

static bool read_field(Reading *reading, Piece *span, Fields *fields)
{
    Piece content;
    uint64_t number;
    switch (*span->at++) {
    case TAG_ATTRIBUTE: return read_attribute(reading, span);
    case TAG_EVENT: return read_event(reading, span);
    case TAG_TRACE_ID: return block(span, &fields->trace_id);
    case TAG_SPAN_ID: return block(span, &fields->span_id);
    case TAG_PARENT: return block(span, &fields->parent);
    case TAG_NAME: return block(span, &fields->name);
    case TAG_TRACE_STATE: return block(span, &fields->state);
    case TAG_KIND: return small(span, &fields->kind);
    case TAG_DROPPED: return small(span, &fields->dropped);
    case TAG_START: return moment(span, &fields->start);
    case TAG_END: return moment(span, &fields->end);
    case TAG_STATUS: return block(span, &content) && status_code(content, &fields->status);
    case TAG_FLAGS:
        return span->at < span->end && *span->at++ == 1 && fixed(span, 4, &fields->flags);
    case TAG_LINK: return block(span, &content);
    case TAG_DROPPED_EVENTS:
    case TAG_DROPPED_LINKS: return varint(span, &number);
    default: return false;
    }
}

static bool read_fields(Reading *reading, Piece span, Fields *fields)
{
    reading->attributes.count = reading->keys.count = reading->events.count = 0;
    while (span.at < span.end)
        if (!read_field(reading, &span, fields))
            return false;
    if (size_of(fields->trace_id) != TRACE_ID_SIZE || size_of(fields->span_id) != SPAN_ID_SIZE)
        return false;
    if (!memcmp(fields->trace_id.at, ZEROS, TRACE_ID_SIZE)
        || !memcmp(fields->span_id.at, ZEROS, SPAN_ID_SIZE))
        return false;
    size_t parent = size_of(fields->parent);
    if (parent == SPAN_ID_SIZE && !memcmp(fields->parent.at, ZEROS, SPAN_ID_SIZE))
        fields->parent.at = fields->parent.end;
    return parent == 0 || parent == SPAN_ID_SIZE;
}

static PyObject *name_of(Reading *reading, Piece name)
{
    PyObject *found = PyUnicode_DecodeUTF8((const char *)name.at, name.end - name.at, NULL);
    if (found != NULL && PyUnicode_GET_LENGTH(found) <= reading->reader->name_max)
        return found;
    if (found == NULL && !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return NULL;
    Py_XDECREF(found);
    return unusual(reading);
}

static PyObject *is_sampled(Reading *reading, Piece state)
{
    if (size_of(state) == 0)
        return Py_NewRef(Py_False);
    PyObject *text =
        PyUnicode_DecodeUTF8((const char *)state.at, state.end - state.at, "replace");
    if (text == NULL)
        return NULL;
    PyObject *found = PyObject_CallOneArg(reading->reader->asked[SAMPLED], text);
    Py_DECREF(text);
    return found;
}

static inline bool put(PyObject **place, PyObject *part)
{
    *place = part;
    return part != NULL;
}

static bool read_span(Reading *reading, Piece span)
{
    Fields fields = {0};
    if (!read_fields(reading, span, &fields)) {
        unusual(reading);
        return false;
    }
    enum { COUNT = 17 }; /* in the order of `Span` */
    PyObject *parts[COUNT] = {NULL};
    PyObject *body = reading->body;
    bool whole = put(&parts[0], bytes_of(fields.trace_id))
        && put(&parts[1], bytes_of(fields.span_id))
        && put(&parts[2], bytes_of(fields.parent))
        && put(&parts[3], name_of(reading, fields.name))
        && put(&parts[4], PyLong_FromLong(fields.kind))
        && put(&parts[5], PyLong_FromUnsignedLongLong(fields.start))
        && put(&parts[6], PyLong_FromUnsignedLongLong(fields.end))
        && put(&parts[7], PyLong_FromLong(fields.status))
        && put(&parts[8], Py_NewRef(reading->resource))
        && put(&parts[9], Py_NewRef(reading->scope))
        && put(&parts[10], PyLong_FromLong(fields.dropped))
        && put(&parts[11], PyLong_FromUnsignedLongLong(fields.flags))
        && put(&parts[12], shape_of(reading))
        && put(&parts[13], values_of(&reading->attributes, body))
        && put(&parts[14], Py_NewRef(reading->codec))
        && put(&parts[15], values_of(&reading->events, body))
        && put(&parts[16], is_sampled(reading, fields.state));
    PyObject *made = whole ? PyObject_Vectorcall(reading->reader->asked[SPAN], parts, COUNT, NULL) : NULL;
    for (int each = 0; each < COUNT; each++)
        Py_XDECREF(parts[each]);
    if (made == NULL)
        return false;
    int failed = PyList_Append(reading->spans, made);
    Py_DECREF(made);
    return !failed;
}

/* One field's content, several of it joined as protobuf merges messages; and no odd field. */
static PyObject *all_of(Reading *reading, Piece message, uint8_t wanted, uint8_t other)
{
    PyObject *found = NULL;
    while (message.at < message.end) {
        uint8_t tag = *message.at++;
        Piece content;
        if ((tag != wanted && tag != other && tag != TAG_SCHEMA_URL) || !block(&message, &content)) {
            Py_XDECREF(found);
            return unusual(reading);
        }
        if (tag != wanted)
            continue;
        PyObject *piece = bytes_of(content);
        if (found == NULL)
            found = piece;
        else
            PyBytes_ConcatAndDel(&found, piece);
        if (found == NULL)
            return NULL;
    }
    return found != NULL ? found : PyBytes_FromStringAndSize(NULL, 0);
}

/* Each field of a message that was found sound, one after the other: false at its end. */
static bool next_field(Piece *message, uint8_t *tag, Piece *content)
{
    if (message->at == message->end)
        return false;
    *tag = *message->at++;
    return block(message, content);
}

static bool read_scope_spans(Reading *reading, Piece message)
{
    PyObject *raw = all_of(reading, message, TAG_SCOPE, TAG_SPANS);
    if (raw == NULL)
        return false;
    PyObject *scope = PyObject_CallOneArg(reading->reader->asked[SCOPE], raw);
    Py_DECREF(raw);
    if (scope == NULL)
        return false;
    Py_XSETREF(reading->scope, scope);
    uint8_t tag;
    Piece content;
    while (next_field(&message, &tag, &content))
        if (tag == TAG_SPANS && !read_span(reading, content))
            return false;
    return true;
}

static bool read_resource_spans(Reading *reading, Piece message)
{
    PyObject *raw = all_of(reading, message, TAG_RESOURCE, TAG_SCOPE_SPANS);
    if (raw == NULL)
        return false;
    PyObject *arguments[] = {raw, reading->codec};
    PyObject *resource = PyObject_Vectorcall(reading->reader->asked[RESOURCE], arguments, 2, NULL);
    Py_DECREF(raw);
    if (resource == NULL)
        return false;
    Py_XSETREF(reading->resource, resource);
    uint8_t tag;
    Piece content;
    while (next_field(&message, &tag, &content))
        if (tag == TAG_SCOPE_SPANS && !read_scope_spans(reading, content))
            return false;
    return true;
}

static bool read_request(Reading *reading)
{
    const uint8_t *begin = (const uint8_t *)PyBytes_AS_STRING(reading->body);
    Piece body = {begin, begin + PyBytes_GET_SIZE(reading->body)};
    while (body.at < body.end) {
        Piece content;
        if (*body.at++ != TAG_RESOURCE_SPANS || !block(&body, &content)) {
            unusual(reading);
            return false;
        }
        if (!read_resource_spans(reading, content))
            return false;
    }
    return true;
}

static PyObject *reader_call(Reader *self, PyObject *args, PyObject *kwargs)
{
    Reading reading = {.reader = self};
    static char *names[] = {"", "", NULL};
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "O!O", names, &PyBytes_Type, &reading.body, &reading.codec))
        return NULL;
    if (PyBytes_GET_SIZE(reading.body) > UINT32_MAX)
        return unusual(&reading);
    reading.spans = PyList_New(0);
    if (reading.spans != NULL && !read_request(&reading))
        Py_CLEAR(reading.spans);
    Py_XDECREF(reading.resource);
    Py_XDECREF(reading.scope);
    PyMem_Free(reading.attributes.parts);
    PyMem_Free(reading.keys.parts);
    PyMem_Free(reading.events.parts);
    return reading.spans;
}

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {
        "shape", "resource", "scope", "sampled", "span", "unusual", "name_max",
        "attributes_max", NULL};
    PyObject *asked[ASKED];
    Py_ssize_t name_max, attributes_max;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "OOOOOOnn", names, &asked[SHAPE], &asked[RESOURCE], &asked[SCOPE],
            &asked[SAMPLED], &asked[SPAN], &asked[UNUSUAL], &name_max, &attributes_max))
        return NULL;
    Reader *self = (Reader *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    for (int each = 0; each < ASKED; each++)
        self->asked[each] = Py_NewRef(asked[each]);
    self->name_max = name_max;
    self->attributes_max = attributes_max;
    return (PyObject *)self;
}

static void reader_dealloc(Reader *self)
{
    for (int each = 0; each < ASKED; each++)
        Py_XDECREF(self->asked[each]);
    for (int each = 0; each < SHAPES; each++) {
        Py_XDECREF(self->shapes[each].raw);
        Py_XDECREF(self->shapes[each].shape);
    }
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject ReaderType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "collector.decode.native.Reader",
    .tp_doc = "Reads requests; raises `unusual` for those that the runtime has to read.",
    .tp_basicsize = sizeof(Reader),
    .tp_new = reader_new,
    .tp_dealloc = (destructor)reader_dealloc,
    .tp_call = (ternaryfunc)reader_call,
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

/* --- the module -------------------------------------------------------------------------------- */

static PyObject *text(PyObject *Py_UNUSED(module), PyObject *pair)
{
    if (!PyBytes_CheckExact(pair))
        Py_RETURN_NONE;
    const uint8_t *begin = (const uint8_t *)PyBytes_AS_STRING(pair);
    Piece found;
    if (!text_of((Piece){begin, begin + PyBytes_GET_SIZE(pair)}, &found))
        Py_RETURN_NONE;
    PyObject *decoded =
        PyUnicode_DecodeUTF8((const char *)found.at, found.end - found.at, NULL);
    if (decoded != NULL || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return decoded;
    PyErr_Clear();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"text", text, METH_O, "The text of a KeyValue that is a key and a string; else None."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "collector.decode.native",
    .m_doc = "OTLP/protobuf read byte by byte.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit_native(void)
{
    if (PyType_Ready(&ValuesType) < 0 || PyType_Ready(&ReaderType) < 0)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made != NULL && PyModule_AddType(made, &ReaderType) < 0)
        Py_CLEAR(made);
    return made;
}
