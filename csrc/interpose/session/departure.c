#include "interpose/session/departure.h"

#include "backend/backend.h"
#include "driver/capture.h"
#include "driver/session.h"
#include "interpose/record/image.h"
#include "interpose/replace/deferred_free.h"

static void gone(CUcontext context) {
    capture_forget((uint64_t)(uintptr_t)context);
    memory_forget((uint64_t)(uintptr_t)context);
}

/* Handles of functions are forgotten before the real call: after it, another thread's image may have them. */
void context_going(struct context_departure *x, CUcontext context) {
    *x = (struct context_departure){.at.context = session_on ? context : NULL};
    if (session_on) {
        loaded_forget();
        functions_forget();
    }
    if (!x->at.context)
        return;
    x->told = session.backend->forget;
    if (x->told)
        session.backend->forget((uint64_t)(uintptr_t)context);
    context_bar(&x->at, context);
    deferred_leaves((uint64_t)(uintptr_t)context, true);
}

void context_went(struct context_departure *x, bool is_gone) {
    uint64_t context = (uint64_t)(uintptr_t)x->at.context;
    if (!context)
        return;
    if (is_gone)
        gone(x->at.context);
    else
        deferred_leaves(context, false);
    if (x->told)
        session.backend->forgotten(is_gone ? context : 0);
    context_unbar(&x->at);
}
