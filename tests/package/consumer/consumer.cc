#include <stdio.h>
#include <weightpager/weightpager.h>
int main(void) { return puts(weightpager_version()) < 0; }
