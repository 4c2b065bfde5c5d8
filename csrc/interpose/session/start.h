/* The session's beginning and end. */
#ifndef ULMS_START_H
#define ULMS_START_H

/* The program initialised CUDA: reads the options, starts what they ask for. Later calls do nothing. */
void session_start(void);

#endif
