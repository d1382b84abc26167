/* Compiled with -DCHECK_HEADER and a version's own header: the numbers in abi.h are those of that version. */
#include "abi.h"
