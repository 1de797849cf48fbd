/* GET /: a page for browsers, to talk to the model and to watch the engine. Its files lie in
 * server/page/ and are part of the program. */
#ifndef TR_SERVER_API_PAGE_H
#define TR_SERVER_API_PAGE_H

#include "server/http/route.h"

extern const struct srv_route srv_page_route, srv_page_file_route;

#endif
