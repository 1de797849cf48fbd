/* The tokenizer of either kind of checkpoint; see checkpoint.h. */
#include "engine/checkpoint/checkpoint.h"

#include <sys/stat.h>

#include "engine/checkpoint/gguf.h"
#include "engine/text/tokenizer.h"

int tr_checkpoint_open_tokenizer(const char *path, int vocab_size, struct tr_tokenizer **ret,
                                 struct tr_err *err)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return tr_tokenizer_load(ret, path, vocab_size, err);
    struct tr_source source;
    struct tr_gguf *g = NULL;
    int rc = tr_source_init(&source, err);
    if (rc)
        return rc;
    rc = tr_gguf_open(&g, &source, path, err);
    if (!rc)
        rc = tr_gguf_tokenizer(g, vocab_size, ret, err);
    tr_gguf_close(g);
    tr_source_done(&source);
    return rc;
}
