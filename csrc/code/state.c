#include "code/state.h"

#include <string.h>

literal_t literal_of(struct predicate p) {
    if (p.index == NO_PREDICATE)
        return 0;
    return (literal_t)(0x40 | (p.negated ? 0x20 : 0) | (p.uniform ? 8 : 0) | p.index);
}

value_t state_get(const struct state *s, uint32_t cell, literal_t under) {
    return under && s->cell[cell].literal == under ? s->cell[cell].under : s->cell[cell].value;
}

void state_put(struct state *s, struct values *v, uint32_t cell, value_t value, literal_t under, bool maybe) {
    if (maybe) {
        s->cell[cell].value = value_join(v, s->cell[cell].value, value);
        s->cell[cell].literal = 0;
    } else if (!under) {
        s->cell[cell].value = value;
        s->cell[cell].literal = 0;
    } else {
        bool both = s->cell[cell].literal == literal_not(under);
        s->cell[cell].value = value_join(v, both ? s->cell[cell].under : s->cell[cell].value, value);
        s->cell[cell].under = value;
        s->cell[cell].literal = under;
    }
}

void state_forget(struct state *s, struct predicate p) {
    p.negated = false;
    literal_t holds = literal_of(p);
    for (uint32_t c = 0; c < CELLS; c++)
        if (s->cell[c].literal == holds || s->cell[c].literal == literal_not(holds))
            s->cell[c].literal = 0;
}

void state_assume(struct state *s, literal_t holds) {
    for (uint32_t c = 0; c < CELLS; c++)
        if (holds && s->cell[c].literal == holds) {
            s->cell[c].value = s->cell[c].under;
            s->cell[c].literal = 0;
        }
}

bool state_join(struct state *to, struct values *v, const struct state *from) {
    bool changed = false;
    for (uint32_t c = 0; c < CELLS; c++) {
        if (memcmp(&to->cell[c], &from->cell[c], sizeof to->cell[c]) == 0)
            continue;
        value_t value = value_join(v, to->cell[c].value, from->cell[c].value);
        literal_t literal = to->cell[c].literal;
        /* where the other way knows nothing under a literal, its value is that under this one, too */
        value_t under = from->cell[c].literal == literal ? from->cell[c].under : from->cell[c].value;
        if (from->cell[c].literal && from->cell[c].literal != literal)
            literal = 0;
        if (literal)
            under = value_join(v, to->cell[c].under, under);
        changed |=
            value != to->cell[c].value || literal != to->cell[c].literal || (literal && under != to->cell[c].under);
        to->cell[c].value = value;
        to->cell[c].literal = literal;
        if (literal)
            to->cell[c].under = under;
    }
    return changed;
}
