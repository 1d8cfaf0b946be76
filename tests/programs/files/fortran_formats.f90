! Fortran's formatted files: edit descriptors, list-directed and namelist
! input, internal files, non-advancing output, appending, errors as iostat.
program fortran_formats
  implicit none
  integer, parameter :: dp = kind(1d0)
  integer :: unit, i, n, status
  real(dp) :: x, temperature = 300.15_dp
  integer :: steps = 10
  character(16) :: title = 'first'
  character(80) :: line
  logical :: quiet = .false.
  namelist /control/ temperature, steps, title, quiet

  open(newunit=unit, file='table.txt', status='new')
  write(unit, '(a6, a12, a14, a10)') 'i', 'fixed', 'exponent', 'hex'
  do i = 1, 20
    x = 1.0_dp / i
    write(unit, '(i6, f12.6, es14.5e3, z10.8)') i, x, x**20, i * 65537
  end do
  close(unit)
  open(newunit=unit, file='table.txt', position='append')
  write(unit, '(5(i0, :, ", "))') [(i, i = 1, 5)]
  write(unit, '(l1, 1x, b8.8, 1x, o6, 1x, en12.3, 1x, g0)') .true., 37, 511, 12345.678_dp, 2.5_dp
  rewind(unit)
  n = 0
  do
    read(unit, '(a)', iostat=status) line
    if (status /= 0) exit
    n = n + 1
    print '(i3, ": ", a)', n, trim(line)
  end do
  close(unit)

  write(line, *) 3, 4.5_dp, ' words'
  print '(3a)', '[', trim(line), ']'
  read(line, *) n, x
  print '(i0, 1x, f0.2)', n, x
  line = '17,,3 4/'
  read(line, *) n
  print '(i0)', n

  open(newunit=unit, file='input.nml')
  write(unit, '(a)') '&control', '  temperature = 77.5d0, steps = 25,', "  title = 'from file' quiet = T", '/'
  rewind(unit)
  read(unit, nml=control)
  close(unit)
  print '(f8.3, 1x, i0, 1x, a, 1x, l1)', temperature, steps, trim(title), quiet

  open(newunit=unit, file='written.nml', delim='apostrophe')
  write(unit, nml=control)
  close(unit)

  write(*, '(a)', advance='no') 'no advance: '
  do i = 1, 5
    write(*, '(i0, " ")', advance='no') i * i
  end do
  print *

  line = 'not a number'
  read(line, *, iostat=status) n
  print '(a, l1)', 'bad number gives an iostat: ', status > 0
  open(newunit=unit, file='absent/file', status='old', iostat=status, iomsg=line)
  print '(a, l1, 1x, a)', 'absent file gives an iostat: ', status > 0, trim(line)
  print '(a, 2(1x, es22.15), 1x, i0)', 'limits:', huge(x), tiny(x), huge(n)
end program
