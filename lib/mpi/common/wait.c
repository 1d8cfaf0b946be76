/* How many calls have driven progress; some may be missed where threads meet. */
#include "wait.h"

_Atomic unsigned smartmap_calls;
