/* The tensors of a checkpoint, and what is wrong with their values, for people and programs. */
#ifndef TR_SERVER_COMMANDS_SURVEY_H
#define TR_SERVER_COMMANDS_SURVEY_H

#include "config/buf.h"
#include "config/options.h"

/* A zeroed struct is empty. */
struct srv_survey {
    bool json, list;       /* the form of the texts; whether tensors are listed */
    struct tr_buf tensors; /* lines, or the members of an array */
    struct srv_survey_fault {
        int n, shown;        /* tensors; of these in a text for people */
        struct tr_buf names; /* "a, b", or the members of an array */
    } zero, nan, infinite;
};

/* Looks at every value of o->model. Release with srv_survey_done. */
TR_NODISCARD int srv_survey(struct srv_survey *ret, const struct tr_options *o, struct tr_err *err);
void srv_survey_done(struct srv_survey *s);

#endif
