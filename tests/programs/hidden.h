/* The kernels of hidden.c, of 32-bit words, n of them: each word y becomes 1664525 y + add + its index.
 *
 *   open(y, n, add)                   memory that an argument shows
 *   inside(y, skip, n, add)           from y + skip words on
 *   part(arguments)                   y, n, add as in open, the first of HIDDEN_ARGUMENTS bytes of one parameter
 *   through(slots, count, n, add)     what each of the count addresses at slots points to
 *   through_variable(n, add)          what the module's variable points to
 *   through_constant(n, add)          what the module's constant points to
 *   follow(node, n, add)              a list of {next, data}: the data of each, to the end at 0
 *   sampled(texture, y, n, add)       as open, and what the texture has there is added
 *   store(slots, at, base, skip)      slots[at] = base + skip words */
#ifndef HIDDEN_H
#define HIDDEN_H

/* What cuModuleLoadData takes. */
const void *hidden_image(void);

#define HIDDEN_ARGUMENTS 4096
#define HIDDEN_VARIABLE  "hidden_pointer"
#define HIDDEN_CONSTANT  "constant_pointer"
/* Named as kernels that follow no addresses, which these do not. */
#define HIDDEN_OPEN    "_ZN2at6native4openEPjmj"
#define HIDDEN_SAMPLED "_ZN2at6native7sampledEmPjmj"
#define HIDDEN_STORE   "_ZN2at6native5storeEPmmmm"

#endif
