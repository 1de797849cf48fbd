/*
 * Promotion: a thread that moves a mapped file into huge pages of memory while others read it.
 *
 * Page by page of the address range, its bytes are copied into fresh memory and that is put in the
 * old one's place by one system call: whoever reads sees the same bytes at the same address before,
 * after and meanwhile. No lock, no pointer that changes.
 */
#ifndef TR_ENGINE_CHECKPOINT_PROMOTE_H
#define TR_ENGINE_CHECKPOINT_PROMOTE_H

#include <stdbool.h>

#include "config/base.h"

struct tr_promoter;

/* [file, file + bytes) maps fd from its beginning, read-only; file is a multiple of 2 MiB, and the
 * addresses up to the next multiple behind the end are the caller's. fd must stay open. NULL: it
 * would be no use, or there is no thread to be had; all goes on as it is. */
struct tr_promoter *tr__promoter_start(uint8_t *file, uint64_t bytes, int fd);
/* Ends it, in the middle if need be. NULL ok. */
void tr__promoter_stop(struct tr_promoter *p);

/* Has it come to its end, and how many bytes has it moved so far? For tests. */
bool tr__promoter_ended(const struct tr_promoter *p, uint64_t *ret_moved);

#endif
