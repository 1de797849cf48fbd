/* Pieces of JSON schemas, as string literals; a list is written "\"a\",\"b\"". */
#ifndef TR_SERVER_API_SCHEMA_H
#define TR_SERVER_API_SCHEMA_H

#define SRV_REQUIRED(fields) "\"required\":[" fields "]"
#define SRV_OBJECT(required, properties)                                                           \
    "{\"type\":\"object\"," SRV_REQUIRED(required) ",\"properties\":{" properties "}}"
/* tool_choice of chat and responses, whose forms of a function differ. */
#define SRV_TOOL_CHOICE_SCHEMA                                                                     \
    "\"anyOf\":[{\"enum\":[\"none\",\"auto\",\"required\",null]},{\"type\":\"object\","            \
    "\"properties\":{\"type\":{\"enum\":[\"function\",\"allowed_tools\"]}},"                       \
    "\"required\":[\"type\"]}]"

#endif
