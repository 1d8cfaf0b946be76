/* What waits do for what else is under way (job.c). */
#ifndef SMARTMAP_PROGRESS_H
#define SMARTMAP_PROGRESS_H

void make_progress(void);

#endif
