/* POST and GET /v1/files; GET and DELETE of one, and its content. */
#ifndef TR_SERVER_API_FILES_H
#define TR_SERVER_API_FILES_H

extern const struct srv_route srv_files_route, srv_file_route;

#endif
