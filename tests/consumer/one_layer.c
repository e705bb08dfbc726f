/* one_layer.c: a C program on the installed library: the step of tests/capi/c_compiles.c. */
#include <mok.h>
#include <stdio.h>

mok_status mok_test_run_from_c(uint16_t* y, float* d_router);

int main(void) {
  uint16_t y[24];
  float d_router[3];
  const mok_status status = mok_test_run_from_c(y, d_router);
  printf("C, MoK %s: %s, y[0] bits %04x, d_router[0] %g\n", mok_version(), status.message, y[0],
         (double)d_router[0]);
  return status.code == MOK_OK && y[0] == 0x4480 ? 0 : 1; /* 1024.0 */
}
