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

enum { TRACE_ID_SIZE = 16, SPAN_ID_SIZE = 8, VARINT_BITS_MAX = 35, WORD = sizeof(uint64_t) };

static const uint8_t ZEROS[TRACE_ID_SIZE];

/* A piece of the body: what is still to be read of a message, or a field's content. */
typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Piece;

/* --- reading: false where the runtime has to read it ------------------------------------------ */

static inline size_t size_of(Piece piece) { return (size_t)(piece.end - piece.at); }

/* A number of at most 35 bits; longer varints are negative numbers, or oddly written. */
static bool long_varint(Piece *from, uint64_t *value)
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

/* The same, mostly of one byte. */
static inline bool varint(Piece *from, uint64_t *value)
{
    if (from->at == from->end || *from->at >= 0x80)
        return long_varint(from, value);
    *value = *from->at++;
    return true;
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

/* Eight bytes as they lie in memory. */
static inline uint64_t word_at(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return word;
}

static inline uint64_t mixed(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash << 29 | hash >> 35;
}

/* A hash of a piece, for tables in which falling together only costs time. */
static inline uint64_t hash_of(uint64_t hash, Piece piece)
{
    if (size_of(piece) < WORD) {
        uint64_t word = size_of(piece);
        while (piece.at < piece.end)
            word = word << 8 | *piece.at++;
        return mixed(hash, word);
    }
    const uint8_t *last = piece.end - WORD;
    for (; piece.at < last; piece.at += WORD)
        hash = mixed(hash, word_at(piece.at));
    return mixed(hash, word_at(last)); /* may overlap */
}

/* True where as many bytes as the piece has are those of the piece. */
static inline bool same(const char *bytes, Piece piece)
{
    const uint8_t *known = (const uint8_t *)bytes;
    size_t size = size_of(piece), at = 0;
    if (size < WORD)
        return !memcmp(known, piece.at, size);
    for (; at + WORD < size; at += WORD)
        if (word_at(known + at) != word_at(piece.at + at))
            return false;
    return word_at(known + size - WORD) == word_at(piece.end - WORD);
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

/* Where the key ends of a KeyValue that is its key, then its value, and nothing else. */
static inline bool is_pair(Piece pair, const uint8_t **key_end)
{
    Piece content;
    if (pair.at == pair.end || *pair.at++ != TAG_KEY || !block(&pair, &content))
        return false;
    *key_end = pair.at;
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

/* Parts that are noted one by one: of an attribute also where its key ends. */
typedef struct {
    Piece whole;
    const uint8_t *key_end;
} Part;

typedef struct {
    Py_ssize_t count;
    Py_ssize_t room;
    Part *parts;
} Parts;

static bool widen(Parts *parts)
{
    Py_ssize_t room = parts->room ? parts->room * 2 : 128;
    Part *more = PyMem_Realloc(parts->parts, (size_t)room * sizeof(Part));
    if (more == NULL)
        return false;
    parts->parts = more;
    parts->room = room;
    return true;
}

/* False where there is no room, and no exception set. */
static inline bool note(Parts *parts, Piece whole, const uint8_t *key_end)
{
    if (parts->count == parts->room && !widen(parts))
        return false;
    Part *part = &parts->parts[parts->count++];
    part->whole = whole;
    part->key_end = key_end;
    return true;
}

/* The key of a noted attribute, behind its length. */
static inline Piece key_in(Part *part) { return (Piece){part->whole.at + 1, part->key_end}; }

static PyObject *values_of(Parts *parts, PyObject *body)
{
    if (parts->count == 0)
        return PyTuple_New(0);
    Values *values = PyObject_NewVar(Values, &ValuesType, parts->count);
    if (values == NULL)
        return NULL;
    const uint8_t *begin = (const uint8_t *)PyBytes_AS_STRING(body);
    for (Py_ssize_t each = 0; each < parts->count; each++) {
        values->parts[each].from = (uint32_t)(parts->parts[each].whole.at - begin);
        values->parts[each].to = (uint32_t)(parts->parts[each].whole.end - begin);
    }
    values->body = Py_NewRef(body);
    return (PyObject *)values;
}

/* --- a reader: what Python decides, asked once for what recurs ---------------------------------- */

enum {
    SHAPE,    /* attribute keys -> a shape, or None */
    RESOURCE, /* (Resource message, codec) -> the resource */
    SCOPE,    /* InstrumentationScope message -> its name */
    SAMPLED,  /* trace state -> whether it marks sampling */
    SPAN,     /* makes a span of its fields */
    UNUSUAL,  /* the exception that says: the runtime has to read it */
    ASKED
};

/* What was seen last, each in the place that its hash gives: it pushes out what was there.

   Of shapes a few dozen recur in every request, and so do the names of spans. Keys recur in ever new
   shapes: messages of a conversation have attributes of their own. An id comes again in the other
   spans of its trace, and below it: one object for each is hashed once, and found by its identity. */
enum { SHAPES = 512, SHAPE_BYTES_MAX = 4096, NAMES = 512, NAME_BYTES_MAX = 64 };
enum { KEYS = 1024, KEY_BYTES_MAX = 128 };
enum { GROUPS = 64, GROUP_BYTES_MAX = 4096, TRACES = 512, SPANS = 4096 };

typedef struct {
    PyObject *raw; /* NULL where there is none */
    PyObject *read;
    int what; /* of groups: a resource, or a scope */
} Known;

/* An id, found by its first bytes without a look at the object. */
typedef struct {
    uint64_t word;
    PyObject *id; /* NULL where there is none */
} Id;

typedef struct {
    PyObject_HEAD
    PyObject *asked[ASKED];
    Py_ssize_t name_max;
    Py_ssize_t attributes_max;
    Parts attributes; /* room for them */
    Known shapes[SHAPES];
    Known keys[KEYS];
    Known names[NAMES];
    Known groups[GROUPS];
    Id traces[TRACES];
    Id spans[SPANS];
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
    size_t keys_size; /* in all */
    uint64_t keys_hash;
    Parts events;
    const uint8_t *fetched; /* how much of the body was asked for, and */
    const uint8_t *end;     /* its end */
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

static inline bool is_of(Known *known, Piece raw)
{
    return known->raw != NULL && (size_t)PyBytes_GET_SIZE(known->raw) == size_of(raw)
        && same(PyBytes_AS_STRING(known->raw), raw);
}

static void remember(Known *known, PyObject *raw, PyObject *read)
{
    Py_XSETREF(known->raw, Py_NewRef(raw));
    Py_XSETREF(known->read, Py_NewRef(read));
}

/* An id: the same object, while it is remembered. */
static PyObject *id_of(Id *known, size_t places, Piece id)
{
    if (size_of(id) == 0)
        return PyBytes_FromStringAndSize(NULL, 0);
    uint64_t word = word_at(id.at);
    Id *place = &known[mixed(0, word) % places];
    bool is_known = place->id != NULL && place->word == word
        && (size_of(id) == SPAN_ID_SIZE || same(PyBytes_AS_STRING(place->id), id));
    if (!is_known) {
        PyObject *made = bytes_of(id);
        if (made == NULL)
            return NULL;
        place->word = word;
        Py_XSETREF(place->id, made);
    }
    return Py_NewRef(place->id);
}

/* The keys of the span, each behind its length. */
static PyObject *raw_keys(Reading *reading)
{
    PyObject *raw = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)reading->keys_size);
    if (raw == NULL)
        return NULL;
    char *to = PyBytes_AS_STRING(raw);
    for (Py_ssize_t each = 0; each < reading->attributes.count; each++) {
        Piece key = key_in(&reading->attributes.parts[each]);
        memcpy(to, key.at, size_of(key));
        to += size_of(key);
    }
    return raw;
}

static bool are_keys(Known *known, Reading *reading)
{
    if (known->raw == NULL || (size_t)PyBytes_GET_SIZE(known->raw) != reading->keys_size)
        return false;
    const char *at = PyBytes_AS_STRING(known->raw);
    for (Py_ssize_t each = 0; each < reading->attributes.count; each++) {
        Piece key = key_in(&reading->attributes.parts[each]);
        if (!same(at, key))
            return false;
        at += size_of(key);
    }
    return true;
}

static PyObject *key_of(Reader *reader, Piece key)
{
    Known *known = &reader->keys[hash_of(0, key) % KEYS];
    if (is_of(known, key))
        return Py_NewRef(known->read);
    PyObject *read = PyUnicode_DecodeUTF8((const char *)key.at, key.end - key.at, "replace");
    if (read == NULL || size_of(key) > KEY_BYTES_MAX)
        return read;
    PyObject *raw = bytes_of(key);
    if (raw == NULL)
        Py_CLEAR(read);
    else
        remember(known, raw, read);
    Py_XDECREF(raw);
    return read;
}

static PyObject *keys_of(Reading *reading)
{
    PyObject *keys = PyTuple_New(reading->attributes.count);
    for (Py_ssize_t each = 0; keys != NULL && each < reading->attributes.count; each++) {
        Piece behind = key_in(&reading->attributes.parts[each]), content;
        PyObject *key = block(&behind, &content) ? key_of(reading->reader, content) : unusual(reading);
        if (key == NULL)
            Py_CLEAR(keys);
        else
            PyTuple_SET_ITEM(keys, each, key);
    }
    return keys;
}

static PyObject *new_shape(Reading *reading)
{
    PyObject *keys = keys_of(reading);
    if (keys == NULL)
        return NULL;
    PyObject *shape = PyObject_CallOneArg(reading->reader->asked[SHAPE], keys);
    Py_DECREF(keys);
    if (shape != Py_None)
        return shape;
    Py_DECREF(shape);
    return unusual(reading);
}

static PyObject *shape_of(Reading *reading)
{
    Known *known = &reading->reader->shapes[reading->keys_hash % SHAPES];
    if (are_keys(known, reading))
        return Py_NewRef(known->read);
    PyObject *shape = new_shape(reading);
    if (shape == NULL || reading->keys_size > SHAPE_BYTES_MAX)
        return shape;
    PyObject *raw = raw_keys(reading);
    if (raw == NULL)
        Py_CLEAR(shape);
    else
        remember(known, raw, shape);
    Py_XDECREF(raw);
    return shape;
}

/* The fields of a Span message. Of one that comes twice the last counts, as the runtime has it. */
typedef struct {
    Piece trace_id, span_id, parent, name, state;
    uint64_t start, end;
    long kind, dropped, status;
} Fields;

/* What tells a key from most others, its length and some of its bytes, for such tables too: spans have
   dozens, and each byte of each is compared with what is found. */
static inline uint64_t mark_of(Piece key)
{
    size_t size = size_of(key);
    if (size < 2 * WORD)
        return hash_of(size, key);
    uint64_t last = word_at(key.end - WORD), before = word_at(key.end - 2 * WORD);
    uint64_t half = word_at(key.at + size / 2 - 1);
    return last ^ (before << 21 | before >> 43) ^ (half << 42 | half >> 22) ^ size;
}

static inline bool read_attribute(Reading *reading, Piece *span)
{
    Piece pair;
    const uint8_t *key_end;
    if (reading->attributes.count >= reading->reader->attributes_max || !block(span, &pair)
        || !is_pair(pair, &key_end) || !note(&reading->attributes, pair, key_end))
        return false;
    Piece key = {pair.at + 1, key_end};
    reading->keys_size += size_of(key);
    reading->keys_hash = mixed(reading->keys_hash, mark_of(key));
    return true;
}

static bool read_event(Reading *reading, Piece *span)
{
    Piece event;
    return block(span, &event) && is_event(event) && note(&reading->events, event, NULL);
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
        return span->at < span->end && *span->at++ == 1 && fixed(span, 4, &number);
    case TAG_LINK: return block(span, &content);
    case TAG_DROPPED_EVENTS:
    case TAG_DROPPED_LINKS: return varint(span, &number);
    default: return false;
    }
}

static bool read_fields(Reading *reading, Piece span, Fields *fields)
{
    reading->attributes.count = reading->events.count = 0;
    reading->keys_size = reading->keys_hash = 0;
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

static PyObject *new_name(Reading *reading, Piece name)
{
    PyObject *found = PyUnicode_DecodeUTF8((const char *)name.at, name.end - name.at, NULL);
    if (found != NULL && PyUnicode_GET_LENGTH(found) <= reading->reader->name_max)
        return found;
    if (found == NULL && !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return NULL;
    Py_XDECREF(found);
    return unusual(reading);
}

static PyObject *name_of(Reading *reading, Piece name)
{
    if (size_of(name) > NAME_BYTES_MAX)
        return new_name(reading, name);
    Known *known = &reading->reader->names[hash_of(0, name) % NAMES];
    if (is_of(known, name))
        return Py_NewRef(known->read);
    PyObject *raw = bytes_of(name), *found = raw != NULL ? new_name(reading, name) : NULL;
    if (found != NULL)
        remember(known, raw, found);
    Py_XDECREF(raw);
    return found;
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

/* Asks for the body's memory a span ahead: it is read in steps of any length, which processors do not
   guess. Of a body that is not in the cache by now this takes 40 % of the time to read it. */
static inline void fetch(Reading *reading, const uint8_t *behind)
{
    enum { LINE = 64, AHEAD = 4096 };
    const uint8_t *until = reading->end - behind > AHEAD ? behind + AHEAD : reading->end;
#if defined(__GNUC__)
    for (; reading->fetched < until; reading->fetched += LINE)
        __builtin_prefetch(reading->fetched, 0, 2);
#else
    (void)until;
#endif
}

static bool read_span(Reading *reading, Piece span)
{
    fetch(reading, span.end);
    Fields fields = {0};
    if (!read_fields(reading, span, &fields)) {
        unusual(reading);
        return false;
    }
    enum { COUNT = 16 }; /* in the order of `Span` */
    PyObject *parts[COUNT] = {NULL};
    PyObject *body = reading->body;
    Reader *reader = reading->reader;
    bool whole = put(&parts[0], id_of(reader->traces, TRACES, fields.trace_id))
        && put(&parts[1], id_of(reader->spans, SPANS, fields.span_id))
        && put(&parts[2], id_of(reader->spans, SPANS, fields.parent))
        && put(&parts[3], name_of(reading, fields.name))
        && put(&parts[4], PyLong_FromLong(fields.kind))
        && put(&parts[5], PyLong_FromUnsignedLongLong(fields.start))
        && put(&parts[6], PyLong_FromUnsignedLongLong(fields.end))
        && put(&parts[7], PyLong_FromLong(fields.status))
        && put(&parts[8], Py_NewRef(reading->resource))
        && put(&parts[9], Py_NewRef(reading->scope))
        && put(&parts[10], PyLong_FromLong(fields.dropped))
        && put(&parts[11], shape_of(reading))
        && put(&parts[12], values_of(&reading->attributes, body))
        && put(&parts[13], Py_NewRef(reading->codec))
        && put(&parts[14], values_of(&reading->events, body))
        && put(&parts[15], is_sampled(reading, fields.state));
    PyObject *made = whole ? PyObject_Vectorcall(reader->asked[SPAN], parts, COUNT, NULL) : NULL;
    for (int each = 0; each < COUNT; each++)
        Py_XDECREF(parts[each]);
    if (made == NULL)
        return false;
    int failed = PyList_Append(reading->spans, made);
    Py_DECREF(made);
    return !failed;
}

/* What Python makes of a resource or a scope. */
static PyObject *asked_of(Reading *reading, int what, PyObject *raw)
{
    PyObject *arguments[] = {raw, reading->codec};
    size_t count = what == RESOURCE ? 2 : 1;
    return raw != NULL
        ? PyObject_Vectorcall(reading->reader->asked[what], arguments, count, NULL)
        : NULL;
}

/* The resource or the scope that a message begins with, if it has one. Read before the spans: to look
   through them for another one takes as long as memory does. */
static PyObject *group_of(Reading *reading, Piece *message, int what, uint8_t wanted)
{
    Piece piece = {message->at, message->at};
    if (message->at < message->end && *message->at == wanted) {
        message->at++;
        if (!block(message, &piece))
            return unusual(reading);
    }
    Known *known = &reading->reader->groups[hash_of((uint64_t)what, piece) % GROUPS];
    if (known->what == what && is_of(known, piece))
        return Py_NewRef(known->read);
    PyObject *raw = bytes_of(piece);
    PyObject *found = asked_of(reading, what, raw);
    if (found != NULL && size_of(piece) <= GROUP_BYTES_MAX) {
        remember(known, raw, found);
        known->what = what;
    }
    Py_XDECREF(raw);
    return found;
}

/* Each message of what a group holds, one after the other: false at its end, or where there is a field
   that is unusual here, and so is one of the group's own that comes late or again. */
static bool next_within(Reading *reading, Piece *group, uint8_t wanted, Piece *content)
{
    while (group->at < group->end) {
        uint8_t tag = *group->at++;
        if ((tag != wanted && tag != TAG_SCHEMA_URL) || !block(group, content)) {
            unusual(reading);
            return false;
        }
        if (tag == wanted)
            return true;
    }
    return false;
}

static bool read_scope_spans(Reading *reading, Piece message)
{
    PyObject *scope = group_of(reading, &message, SCOPE, TAG_SCOPE);
    if (scope == NULL)
        return false;
    Py_XSETREF(reading->scope, scope);
    Piece span;
    while (next_within(reading, &message, TAG_SPANS, &span))
        if (!read_span(reading, span))
            return false;
    return !PyErr_Occurred();
}

static bool read_resource_spans(Reading *reading, Piece message)
{
    PyObject *resource = group_of(reading, &message, RESOURCE, TAG_RESOURCE);
    if (resource == NULL)
        return false;
    Py_XSETREF(reading->resource, resource);
    Piece spans;
    while (next_within(reading, &message, TAG_SCOPE_SPANS, &spans))
        if (!read_scope_spans(reading, spans))
            return false;
    return !PyErr_Occurred();
}

static bool read_request(Reading *reading)
{
    const uint8_t *begin = (const uint8_t *)PyBytes_AS_STRING(reading->body);
    Piece body = {begin, begin + PyBytes_GET_SIZE(reading->body)};
    reading->fetched = begin;
    reading->end = body.end;
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

/* Room for parts is kept from one request to the next: who reads meanwhile finds none, and makes some. */
enum { KEPT_ROOM_MAX = 1024 };

static Parts taken(Parts *kept)
{
    Parts parts = *kept;
    *kept = (Parts){0};
    return parts;
}

static void give_back(Parts *kept, Parts parts)
{
    if (kept->parts == NULL && parts.room <= KEPT_ROOM_MAX)
        *kept = parts;
    else
        PyMem_Free(parts.parts);
}

static PyObject *reader_call(Reader *self, PyObject *args, PyObject *kwargs)
{
    if (kwargs != NULL || PyTuple_GET_SIZE(args) != 2
        || !PyBytes_CheckExact(PyTuple_GET_ITEM(args, 0))) {
        PyErr_SetString(PyExc_TypeError, "expected a body and its codec");
        return NULL;
    }
    Reading reading = {
        .reader = self, .body = PyTuple_GET_ITEM(args, 0), .codec = PyTuple_GET_ITEM(args, 1)};
    if (PyBytes_GET_SIZE(reading.body) > UINT32_MAX)
        return unusual(&reading);
    reading.attributes = taken(&self->attributes);
    reading.spans = PyList_New(0);
    if (reading.spans != NULL && !read_request(&reading))
        Py_CLEAR(reading.spans);
    Py_XDECREF(reading.resource);
    Py_XDECREF(reading.scope);
    give_back(&self->attributes, reading.attributes);
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

static void forget(Known *known, int places)
{
    for (int each = 0; each < places; each++) {
        Py_XDECREF(known[each].raw);
        Py_XDECREF(known[each].read);
    }
}

static void reader_dealloc(Reader *self)
{
    for (int each = 0; each < ASKED; each++)
        Py_XDECREF(self->asked[each]);
    PyMem_Free(self->attributes.parts);
    forget(self->shapes, SHAPES);
    forget(self->keys, KEYS);
    forget(self->names, NAMES);
    forget(self->groups, GROUPS);
    for (int each = 0; each < TRACES; each++)
        Py_XDECREF(self->traces[each].id);
    for (int each = 0; each < SPANS; each++)
        Py_XDECREF(self->spans[each].id);
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

/* A text, as Python has it; NULL and no exception where it is not valid. */
static PyObject *decoded(Piece text)
{
    PyObject *found = PyUnicode_DecodeUTF8((const char *)text.at, text.end - text.at, NULL);
    if (found == NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        PyErr_Clear();
    return found;
}

/* What was found; None where there is nothing, unless that is for an exception. */
static PyObject *or_none(PyObject *found)
{
    return found != NULL || PyErr_Occurred() ? found : Py_NewRef(Py_None);
}

static PyObject *text(PyObject *Py_UNUSED(module), PyObject *pair)
{
    if (!PyBytes_CheckExact(pair))
        Py_RETURN_NONE;
    const uint8_t *begin = (const uint8_t *)PyBytes_AS_STRING(pair);
    Piece found;
    if (!text_of((Piece){begin, begin + PyBytes_GET_SIZE(pair)}, &found))
        Py_RETURN_NONE;
    return or_none(decoded(found));
}

/* The place of a value: false, and no exception, where the first two arguments are none. */
static bool part_at(PyObject *const *arguments, Piece *part)
{
    if (!Py_IS_TYPE(arguments[0], &ValuesType) || !PyLong_CheckExact(arguments[1]))
        return false;
    Values *values = (Values *)arguments[0];
    Py_ssize_t index = PyLong_AsSsize_t(arguments[1]);
    if (index < 0 || index >= Py_SIZE(values)) {
        PyErr_Clear();
        return false;
    }
    const uint8_t *body = (const uint8_t *)PyBytes_AS_STRING(values->body);
    *part = (Piece){body + values->parts[index].from, body + values->parts[index].to};
    return true;
}

/* Longer values are read where their size is looked at. */
enum { TEXT_BYTES_MAX = 16 << 10 };

/* The text of a value, which may be no valid one; false, and no exception, where there is none.

   Others in C have it by the capsule of this name. It lies in the body: behind it stands what follows
   there, and behind all of the body a zero. */
static int text_in(PyObject *const *arguments, const char **at, const char **end)
{
    Piece part, found;
    if (!part_at(arguments, &part) || size_of(part) > TEXT_BYTES_MAX || !text_of(part, &found))
        return 0;
    *at = (const char *)found.at;
    *end = (const char *)found.end;
    return 1;
}

static PyObject *text_at(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    const char *at, *end;
    if (count != 2 || !text_in(arguments, &at, &end))
        Py_RETURN_NONE;
    return or_none(decoded((Piece){(const uint8_t *)at, (const uint8_t *)end}));
}

/* Texts that recur, by the KeyValue they were read from. */
enum { TEXTS = 1024, RECURRING_BYTES_MAX = 128 };
static Known texts[TEXTS];

static PyObject *recurring_at(
    PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    Piece part, found;
    if (count != 2 || !part_at(arguments, &part) || size_of(part) > RECURRING_BYTES_MAX)
        Py_RETURN_NONE;
    Known *known = &texts[hash_of(0, part) % TEXTS];
    if (is_of(known, part))
        return Py_NewRef(known->read);
    if (!text_of(part, &found))
        Py_RETURN_NONE;
    PyObject *raw = bytes_of(part), *read = raw != NULL ? decoded(found) : NULL;
    if (read != NULL)
        remember(known, raw, read);
    Py_XDECREF(raw);
    return or_none(read);
}

/* Whether the value at an index came as one that was kept: 0 or 1, or -1 with an exception. */
static int is_as(PyObject *values, PyObject *index, PyObject *raw)
{
    PyObject *arguments[] = {values, index};
    Piece part;
    if (PyBytes_CheckExact(raw) && part_at(arguments, &part))
        return (size_t)PyBytes_GET_SIZE(raw) == size_of(part)
            && same(PyBytes_AS_STRING(raw), part);
    PyObject *item = PyObject_GetItem(values, index);
    int equal = item != NULL ? PyObject_RichCompareBool(item, raw, Py_EQ) : -1;
    Py_XDECREF(item);
    return equal;
}

static PyObject *came_as(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "expected values, an index, and what is looked for");
        return NULL;
    }
    int equal = is_as(arguments[0], arguments[1], arguments[2]);
    return equal < 0 ? NULL : PyBool_FromLong(equal);
}

static PyObject *all_came_as(
    PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2 || !PyTuple_CheckExact(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "expected values, and pairs of an index and a value");
        return NULL;
    }
    int equal = 1;
    for (Py_ssize_t each = 0; equal == 1 && each < PyTuple_GET_SIZE(arguments[1]); each++) {
        PyObject *pair = PyTuple_GET_ITEM(arguments[1], each);
        if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2) {
            PyErr_SetString(PyExc_TypeError, "expected pairs of an index and a value");
            return NULL;
        }
        equal = is_as(arguments[0], PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
    }
    return equal < 0 ? NULL : PyBool_FromLong(equal);
}

static PyMethodDef functions[] = {
    {"text", text, METH_O, "The text of a KeyValue that is a key and a string; else None."},
    {"text_at", (PyCFunction)(void (*)(void))text_at, METH_FASTCALL,
     "The same of a value by its index, if it is not long; None of all others."},
    {"recurring_at", (PyCFunction)(void (*)(void))recurring_at, METH_FASTCALL,
     "The same of a short text that comes again and again: it is remembered."},
    {"came_as", (PyCFunction)(void (*)(void))came_as, METH_FASTCALL,
     "Whether a value, by its index, came as this."},
    {"all_came_as", (PyCFunction)(void (*)(void))all_came_as, METH_FASTCALL,
     "The same of several: (index, value) each."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "collector.decode.native",
    .m_doc = "OTLP/protobuf read byte by byte.",
    .m_size = -1,
    .m_methods = functions,
};

/* What others in C find by its name. */
static int add_capsule(PyObject *made)
{
    PyObject *capsule = PyCapsule_New((void *)text_in, "collector.decode.native._text_in", NULL);
    int failed = capsule == NULL || PyModule_AddObjectRef(made, "_text_in", capsule) < 0;
    Py_XDECREF(capsule);
    return failed ? -1 : 0;
}

PyMODINIT_FUNC PyInit_native(void)
{
    if (PyType_Ready(&ValuesType) < 0 || PyType_Ready(&ReaderType) < 0)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made != NULL
        && (PyModule_AddType(made, &ReaderType) < 0 || add_capsule(made) < 0
            || PyModule_AddIntConstant(made, "TEXT_BYTES_MAX", TEXT_BYTES_MAX) < 0))
        Py_CLEAR(made);
    return made;
}
